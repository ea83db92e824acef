// BlockCopy: how what others read is written into a block.
//
// A block's lines lie in the cache of the core that read it last. To write them a core fetches them from
// there, which costs little where both share a cache, and more than the copy where they do not: other
// sockets, other parts of a processor, and virtual machines whose cores are moved about (two cores, 64 KiB
// handed over in four pieces through a ring of 2 MiB: 2.5 to 5.2 us; the same cores in another hour, a line
// 250 ns away instead of 50, 16 to 30). Stores past the cache fetch nothing, and the reader reads memory: 4.7
// to 5.2 us in both.
//
// So some copies are timed. When three in a row have waited for their lines, those that follow go past the
// cache, but for one now and then that shows whether this is still so. What comes from memory is told apart:
// it waits for memory, and its lines are asked for ahead (near, all-reduces of 16 and 64 MiB take a tenth to
// a quarter longer with stores past the cache); from afar it takes 24 ns a line, else 5 (16 MiB of two ranks,
// lines 250 ns away, through the cache and past it: broadcast 5.4 to 8.1 and 1.4 to 2.0 ms, gather 2.2 to 8.7
// and 2.4 to 3.0).
//
// Thread safety: copies may run at once.
#pragma once

#include <array>
#include <atomic>

#include "core/base/clock.hpp"
#include "core/base/types.hpp"

namespace ddl {

/// Copies what others read soon into a block that they have read before.
void write_block(std::byte* block, const std::byte* from, Bytes bytes);

class BlockCopy {
 public:
  static constexpr Bytes kLeast = 8 << 10;  // less is copied by write_block()
  /// A line takes longer than that, although many are fetched at once: it comes from afar. (It took 2 to 7 ns
  /// where cores share a cache, 11 to 27 where they do not.)
  static constexpr Nanoseconds kFar = 10, kFarFromMemory = 16;
  static constexpr int kInARow = 3, kLookEvery = 16, kLookFromAfarEvery = 64;

  /// Memory: what is copied is too large for any cache.
  enum class From : std::uint8_t { caches, memory };
  void copy(std::byte* block, const std::byte* from, Bytes bytes, From source = From::caches);

  bool is_far(From source = From::caches) const {
    return known(source).is_far.load(std::memory_order_relaxed);
  }
  /// Whether the next copy is to be timed; and what a plain one has taken.
  bool looks(From source = From::caches);
  void note(Bytes bytes, Nanoseconds time, From source = From::caches);

 private:
  // Counts that threads which copy at once may miss one of.
  struct Known {
    std::atomic<int> until_look{0}, in_a_row{0};
    std::atomic<bool> is_far{false};
  };
  const Known& known(From source) const { return known_[static_cast<std::size_t>(source)]; }
  Known& known(From source) { return known_[static_cast<std::size_t>(source)]; }

  std::array<Known, 2> known_;
};

}  // namespace ddl
