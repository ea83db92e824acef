// Blocks of unequal length, as MPI's calls with counts for every rank describe them.
//
// A program makes the same call again and again: what was made of its counts is kept with the communicator,
// of the last few calls.
// Thread safety: that of the calls of one communicator, which are made one after the other.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/types.hpp"

namespace ddl::mpi {

/// One side of a call as the program gave it: so many elements of a type for each rank.
struct BlockSide {
  const void* buffer = nullptr;
  const int* counts = nullptr;
  const int* displacements = nullptr;  // in extents of the type
  MPI_Datatype type = MPI_DATATYPE_NULL;
  const MPI_Datatype* types = nullptr;  // of each block; then displacements are in bytes

  MPI_Datatype type_of(Rank rank) const { return types ? types[rank] : type; }
};

/// How long a block is and where it begins, in elements of the engine's.
struct Block {
  std::uint64_t count;
  std::int64_t offset;
  friend bool operator==(const Block&, const Block&) = default;
};

/// Those of a side, by rank, as the engine takes them.
struct Blocks {
  std::vector<std::uint64_t> counts;
  std::vector<std::int64_t> offsets;
  std::uint64_t longest = 0, total = 0;
  std::uint64_t hash = 0;  // of the lengths; never 0

  /// Those of a side of one type, whose elements are so long and without gaps; false: it is no right one.
  bool set(const BlockSide& side, Rank ranks, std::uint64_t size);
  template <class BlockOf>
  void set(std::size_t blocks, const BlockOf& block_of) {
    counts.resize(blocks);
    offsets.resize(blocks);
    longest = total = 0;
    hash = 1469598103934665603ull;
    for (std::size_t i = 0; i < blocks; ++i) {
      const Block block = block_of(i);
      counts[i] = block.count;
      offsets[i] = block.offset;
      longest = std::max(longest, block.count);
      total += block.count;
      hash = (hash ^ block.count) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 29;
    }
    hash |= 1;
  }
};

class BlockCache {
 public:
  std::shared_ptr<const Blocks> find(std::span<const Block> blocks);
  /// Those of a side where the program has them; null where its call is wrong.
  std::shared_ptr<const Blocks> find(const BlockSide& side, Rank ranks);

 private:
  static constexpr std::size_t kCalls = 16;  // roots may take turns, each with lists of its own
  template <class Entry>
  struct Last {  // the last kCalls of them
    std::vector<Entry> entries;
    std::size_t oldest = 0;
    void add(Entry entry) {
      if (entries.size() < kCalls)
        entries.push_back(std::move(entry));
      else
        entries[oldest++ % kCalls] = std::move(entry);
    }
  };
  // The words of a call of that communicator: a loop says them again and again.
  struct Said {
    const void* type;  // lasting_name() of it
    std::vector<int> counts, displacements;
    std::shared_ptr<const Blocks> blocks;
    bool is(const BlockSide& side, const void* side_type) const;
  };
  Last<Said> said_;
  struct Kept {
    std::vector<Block> list;
    std::shared_ptr<const Blocks> blocks;
  };
  Last<Kept> kept_;
};

enum class Places {
  given,  // where the program has them
  packed  // one after the other
};

/// In bytes. Empty where the program's call is wrong. Valid until the next call of this thread.
std::span<const Block> list_blocks(const BlockSide& side, Rank ranks, Places places);
/// Counts that are so many elements each, one block after the other. Likewise.
std::span<const Block> list_blocks(const int counts[], Rank ranks, std::uint64_t elements);

}  // namespace ddl::mpi
