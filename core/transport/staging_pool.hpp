// StagingPool: the blocks in a rank's own region that its peers read payloads from.
//
// A block is free when nobody counts as its reader any more; the peers count themselves out, so the pool
// looks when it needs one. No communicator owns any: a message names its block.
//
// Blocks of more than 4 KiB come from a ring (StagingRing), which grows to 4 MiB where a call needs more. All
// others come in sizes of powers of two and are used again for the same size: small ones, which are sent
// soonest from few lines that stay in the caches; those too large for the ring; those of a burst, which may
// be read much later; and those that are kept. Of each size the few used last take turns, a multiple of what
// a call has under way at once, so that a block in its turn has the reader that it had (4 ranks, all-reduce
// of 1 MiB, 1, 3, 4, 6, 8 blocks of 256 KiB: 223, 223, 193, 234, 196 us; of 32 MiB, 4 and 16: 8.3 and 7.4
// ms).
//
// What keeps ranks from waiting for each other's blocks for ever: the pool stops at its cap for whoever can
// wait, but goes beyond it for who cannot (Need::now), that is for the oldest segment of the oldest operation
// of a communicator. Everything that such a segment stages is read by peers that wait for it.
//
// Thread safety: none; the engine's lock is held.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <vector>

#include "core/base/partition.hpp"
#include "core/transport/region.hpp"
#include "core/transport/staging_ring.hpp"
#include "core/transport/transport.hpp"

namespace ddl {

class StagingPool {
 public:
  /// Hands out what lies behind `begin` in the region: `cap` bytes, and all that there is where somebody
  /// cannot wait. The ring has `ring` bytes at first (0: none ever), and at most a quarter of the cap; its
  /// first round takes `first_round` of them.
  /// How many there should be: each communicator whose calls cannot wait may hold as many as its ranks have
  /// under way at once, some megabytes. They are no memory until they are used.
  static constexpr Bytes kBeyond = 16, kLeastOfJob = 256 << 20;
  static constexpr Bytes region_bytes(Bytes cap, Bytes least = 0) { return std::max(cap * kBeyond, least); }
  StagingPool(Region& region, Bytes begin, Bytes cap, Bytes ring, Bytes first_round = ~Bytes{0});
  /// Makes the ring, and has its pages and those of some blocks there before they are asked for. Without it
  /// there is no ring.
  void prepare();
  /// Maps those pages of another rank's region, whose staging begins at the same place.
  void prepare_to_read(Region& other) const;

  /// A block for a payload of that many bytes which `readers` will release; null: none is free now. The call
  /// that it is for has `at_once` of that size under way.
  std::byte* take(Bytes payload, std::uint32_t readers, Need need, std::size_t at_once = 1);
  /// One that its `readers` will release much later, or never; null: none is free now.
  std::byte* keep(Bytes payload, std::uint32_t readers);
  /// Staging taken from the region so far, in bytes.
  Bytes taken() const { return ring_.bytes() + used_ - begin_; }

  static std::byte* payload_of(std::byte* block) { return block + sizeof(BlockHead); }
  static std::atomic<std::uint32_t>& readers_of(const std::byte* block) {
    return reinterpret_cast<BlockHead*>(const_cast<std::byte*>(block))->readers;
  }
  static bool is_free(const std::byte* block) {
    return readers_of(block).load(std::memory_order_acquire) == 0;
  }
  /// Bytes of the region that a block outside the ring takes for a payload of at most that size.
  static Bytes block_bytes(Bytes payload);

 private:
  struct SizeClass {
    std::deque<std::byte*> recent;   // take turns, the one used longest ago first
    std::vector<std::byte*> others;  // that a burst has left behind, the latest last
  };
  std::byte* take_of_size(Bytes payload, Need need, std::size_t at_once);
  bool grow_ring(Bytes by);
  static std::byte* next_recent(SizeClass& of, std::size_t turns);
  static std::byte* latest_other(SizeClass& of, std::size_t most);
  static std::byte* any_recent(SizeClass& of);
  std::byte* carve(Bytes bytes, Need need);

  Region& region_;
  // The ring has room to grow; behind it lie the other blocks.
  Bytes ring_begin_, ring_most_, begin_, used_, reserved_, cap_end_, end_, prepared_ring_, first_round_,
      prepared_;
  StagingRing ring_;
  std::array<SizeClass, 32> classes_;
};

}  // namespace ddl
