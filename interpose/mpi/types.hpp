// What the engine makes of MPI's datatypes and operations: of C's, and of Fortran's as large as in the
// compiler that the MPI library was built for.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "core/reduce/recognise.hpp"

namespace ddl::mpi {

/// Whether it is one of the predefined types that are listed here: its elements lie without gaps.
bool is_known(MPI_Datatype type);
/// Bytes of an element of these; 0 of another type.
std::uint64_t size_of_known(MPI_Datatype type);

/// Bytes of an element of any type; nothing where it is none.
std::optional<std::uint64_t> size_of_type(MPI_Datatype type);
/// The same of a type that may be used in a call: nothing, too, where it is not committed.
std::optional<std::uint64_t> size_in_call(MPI_Datatype type);

/// How the engine does this operation on this type: an element of `type` is `parts` elements of the
/// reduction's. Returns null, or why it cannot; then the others are not set.
const char* find_reduction(MPI_Datatype type, MPI_Op op, Reduction& reduction, std::uint64_t& parts);

/// How a type was made: MPI_COMBINER_NAMED where MPI names it; MPI_UNDEFINED where it is none.
int combiner_of(MPI_Datatype type);
/// Whether types made so are MPI's, which nobody frees: those that it names, and Fortran's by precision and
/// range.
bool is_predefined(int combiner);

struct FreeType {
  using pointer = MPI_Datatype;
  void operator()(MPI_Datatype type) const;  // but for predefined ones
};
using OwnedType = std::unique_ptr<void, FreeType>;

/// What a type made by MPI_Type_contiguous or MPI_Type_dup, or by MPI_Type_vector without gaps, consists of;
/// nothing where it is another. `combiner`: combiner_of() it.
struct Repeated {
  OwnedType of;
  int count = 1;
};
Repeated repeated_by(MPI_Datatype type, int combiner);

/// Whether elements of that type lie in memory as they do in a message. Asks no more than their address of
/// the types that MPI names.
bool is_dense(MPI_Datatype type);

}  // namespace ddl::mpi
