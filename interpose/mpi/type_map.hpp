// The type map of a derived type, in MPI's word: where the bytes of an element lie. Packs and unpacks what
// MPI_Pack and MPI_Unpack do, in loops that know nothing but addresses. Thread safety: all.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ddl::mpi {

class TypeMap {
 public:
  /// Null where it has too many stretches to be worth it, or is made in a way that is not followed here. Asks
  /// MPI a good deal: of types that are used again.
  static std::shared_ptr<const TypeMap> of(MPI_Datatype type);

  /// So many elements from `from` on to bytes one behind the other, as they would lie in a message.
  void pack(std::byte* to, const std::byte* from, std::uint64_t elements) const;
  /// The way back; what lies between is left as it is.
  void unpack(std::byte* to, const std::byte* from, std::uint64_t elements) const;

  /// Bytes in a row, from so many behind the beginning of an element.
  struct Stretch {
    std::ptrdiff_t offset = 0;
    std::uint64_t bytes = 0;
  };

 private:
  TypeMap(std::vector<Stretch> stretches, MPI_Aint extent);

  const std::vector<Stretch> stretches_;  // in the order of a message
  const std::ptrdiff_t extent_;
  std::ptrdiff_t stride_ = 0;  // from each to the next where all are alike, else 0
};

}  // namespace ddl::mpi
