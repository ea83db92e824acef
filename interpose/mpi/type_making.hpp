// How a derived type was made, asked of MPI.
//
// Thread safety: all.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "interpose/mpi/made_types.hpp"

namespace ddl::mpi {

/// How a type was made, as the standard lists it (MPI 3.1, 4.1.13).
struct Making {
  int combiner = MPI_UNDEFINED;
  std::span<const int> integers;
  std::span<const MPI_Aint> addresses;
};

/// The same with what it was made of.
struct Contents {
  int combiner = MPI_UNDEFINED;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<TypePart> types;
};
Contents contents_of(MPI_Datatype type);

/// What MPI_Type_vector or MPI_Type_create_hvector was given; nothing where it was made otherwise, or of a
/// type that is not known. `combiner`: that of the type.
struct VectorShape {
  MPI_Aint blocks, block, stride;  // the last two in bytes
};
std::optional<VectorShape> vector_of(MPI_Datatype type, int combiner);

/// The type to which MPI_Type_create_resized has given another extent, if that was made, too; else none.
TypePart resized_by(MPI_Datatype type, int combiner);

inline constexpr std::int64_t kMostBlocks = 1 << 16;  // that are followed

// The blocks of a subarray, row by row.
template <class Add>
class Rows {
 public:
  Rows(const Making& made, MPI_Aint extent, Add add)
      : said_(made.integers),
        dimensions_(said_[0]),
        is_c_(said_.back() == MPI_ORDER_C),
        extent_(extent),
        add_(add) {}
  bool for_all() {
    std::int64_t rows = 1;
    for (int d = 1; d < dimensions_; ++d) rows *= part(d);
    return rows <= kMostBlocks && add(dimensions_ - 1, 0);
  }

 private:
  // By dimension, from the fastest on.
  std::int64_t whole(int d) const { return said(0, d); }
  std::int64_t part(int d) const { return said(1, d); }
  std::int64_t start(int d) const { return said(2, d); }
  std::int64_t said(int what, int d) const {
    return said_[static_cast<std::size_t>(1 + what * dimensions_ + (is_c_ ? dimensions_ - 1 - d : d))];
  }
  // What begins so many elements of that dimension behind the beginning of all.
  bool add(int d, std::int64_t at) {
    at += start(d);
    if (d == 0) return add_(part(0), at * extent_, 0);
    const std::int64_t each = whole(d - 1), end = at + part(d), first = start(0), length = part(0);
    for (; at < end; ++at)
      if (d > 1 ? !add(d - 1, at * each) : !add_(length, (at * each + first) * extent_, 0)) return false;
    return true;
  }

  const std::span<const int> said_;
  const int dimensions_;
  const bool is_c_;
  const MPI_Aint extent_;
  Add add_;
};

/// Calls `add` for each block that a type was made of: so many elements, so many bytes behind its beginning,
/// of the type of that number. `extent`: that of the first. False where we do not follow, or add() does not.
template <class Add>
bool for_blocks(const Making& made, MPI_Aint extent, Add add) {
  const std::span<const int> said = made.integers;
  const auto count = static_cast<std::size_t>(said.empty() ? 0 : said[0]);
  if (made.combiner != MPI_COMBINER_CONTIGUOUS && count > kMostBlocks) return false;
  auto for_all = [&](auto length_of, auto place_of, bool are_types) {
    for (std::size_t i = 0; i < count; ++i)
      if (!add(std::int64_t{length_of(i)}, static_cast<MPI_Aint>(place_of(i)), are_types ? i : 0))
        return false;
    return true;
  };
  auto own_length = [&](std::size_t i) { return said[1 + i]; };
  auto same_length = [&](std::size_t) { return said[1]; };
  auto own_place = [&](std::size_t i) { return made.addresses[i]; };
  switch (made.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      return add(1, 0, 0);
    case MPI_COMBINER_CONTIGUOUS:
      return add(said[0], 0, 0);
    case MPI_COMBINER_VECTOR:
      return for_all(
          same_length, [&](std::size_t i) { return static_cast<MPI_Aint>(i) * said[2] * extent; }, false);
    case MPI_COMBINER_HVECTOR:
      return for_all(
          same_length, [&](std::size_t i) { return static_cast<MPI_Aint>(i) * made.addresses[0]; }, false);
    case MPI_COMBINER_INDEXED:
      return for_all(
          own_length, [&](std::size_t i) { return said[1 + count + i] * extent; }, false);
    case MPI_COMBINER_HINDEXED:
      return for_all(own_length, own_place, false);
    case MPI_COMBINER_INDEXED_BLOCK:
      return for_all(
          same_length, [&](std::size_t i) { return said[2 + i] * extent; }, false);
    case MPI_COMBINER_HINDEXED_BLOCK:
      return for_all(same_length, own_place, false);
    case MPI_COMBINER_STRUCT:
      return for_all(own_length, own_place, true);
    case MPI_COMBINER_SUBARRAY:
      return Rows(made, extent, add).for_all();
    default:
      return false;
  }
}

}  // namespace ddl::mpi
