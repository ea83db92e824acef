// What is asked of any datatype, above all of those that programs make: how large its elements are and how
// they lie. A type is taken apart once by each thread; what was found holds until the program frees it.
// Thread safety: all functions.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "interpose/mpi/type_map.hpp"

namespace ddl::mpi {

struct TypeFacts {
  MPI_Datatype type = nullptr;
  std::uint32_t freed = 0;   // types with handles like this one, when it was looked at
  std::uint64_t number = 0;  // of it alone: its handle may come again, for another type
  std::uint64_t size = 0;    // of an element, in bytes; without the gaps
  MPI_Aint lower = 0, extent = 0;
  int combiner = 0;
  bool is_dense = false;
  // What one of MPI_Type_contiguous consists of, where MPI names that; else null.
  MPI_Datatype element = nullptr;
  int elements = 0;
  TypeMap map = {};      // at once where that is easy, else when it has been packed often enough; or none
  int times_packed = 0;  // or unpacked, until then
};
/// Null where it is no type, or not committed. Valid until this thread's next call of this.
const TypeFacts* facts_of(MPI_Datatype type);

/// How to pack elements of a type, or unpack them; null: MPI does that. Valid until this thread's next call
/// of facts_of().
const TypeMap* type_map_of(MPI_Datatype type);

/// Bytes of an element of any type; nothing where it is none.
std::optional<std::uint64_t> size_of_type(MPI_Datatype type);
/// The same of a type that may be used in a call: nothing, too, where it is not committed.
std::optional<std::uint64_t> size_in_call(MPI_Datatype type);
/// Bytes from an element to the next; 0 where it is none.
MPI_Aint extent_of(MPI_Datatype type);
/// Whether elements of that type lie in memory as they do in a message.
bool is_dense(MPI_Datatype type);

/// How a type was made: MPI_COMBINER_NAMED where MPI names it; MPI_UNDEFINED where it is none.
int combiner_of(MPI_Datatype type);
/// Whether types made so are MPI's, which nobody frees: those that it names, and Fortran's by precision and
/// range.
bool is_predefined(int combiner);
/// A word for a type as long as the program runs: its handle where nobody frees it. `type`: one with facts.
const void* lasting_name(MPI_Datatype type);
/// Whether it names one that the program has made: by an odd number, which no handle is, since that is an
/// address.
inline bool is_name_of_made(const void* name) { return reinterpret_cast<std::uintptr_t>(name) % 2 == 1; }

/// The hook: its handle may mean another type from now on.
int type_free(MPI_Datatype* type);

struct FreeType {
  using pointer = MPI_Datatype;
  void operator()(MPI_Datatype type) const;  // but for predefined ones
};
using OwnedType = std::unique_ptr<void, FreeType>;
/// A part of another type, as MPI has named it to us: it is the program's as well, and lives on.
struct LeavePart {
  using pointer = MPI_Datatype;
  void operator()(MPI_Datatype type) const;
};
using TypePart = std::unique_ptr<void, LeavePart>;

}  // namespace ddl::mpi
