// The type map of a derived type, in MPI's word: where the bytes of an element lie. Packs and unpacks what
// MPI_Pack and MPI_Unpack do, in loops that know nothing but addresses. Thread safety: all.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ddl::mpi {

class TypeMap {
 public:
  /// Bytes in a row, from so many behind the beginning of an element.
  struct Stretch {
    std::ptrdiff_t offset;
    std::uint64_t bytes;
  };

  /// Of none.
  TypeMap() = default;
  /// None where it has too many stretches to be worth it, or is made in a way that is not followed here. Asks
  /// MPI a good deal: of types that are used again.
  static TypeMap of(MPI_Datatype type);
  /// The same of one that was made, as its combiner says, of few blocks of types that are known; else none.
  /// Asks so little that it is worth it for one call.
  static TypeMap of_few(MPI_Datatype type, int combiner, std::uint64_t size, MPI_Aint extent);

  bool is_none() const { return stretches_ == 0; }
  /// So many elements from `from` on to bytes one behind the other, as they would lie in a message.
  void pack(std::byte* to, const std::byte* from, std::uint64_t elements) const;
  /// The way back; what lies between is left as it is.
  void unpack(std::byte* to, const std::byte* from, std::uint64_t elements) const;

 private:
  TypeMap(std::span<const Stretch> stretches, MPI_Aint extent);  // one at least
  template <bool packs>
  void copy(std::byte* row, std::byte* others, std::uint64_t elements) const;

  std::uint64_t stretches_ = 0;  // of an element, in the order of a message
  Stretch first_{};
  std::ptrdiff_t stride_ = 0;  // from each to the next
  std::ptrdiff_t extent_ = 0;
  std::shared_ptr<const Stretch[]> unlike_ = {};  // all, where these differ in length or stride
};

}  // namespace ddl::mpi
