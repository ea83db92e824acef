#include "core/transport/staging_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace ddl {
namespace {

constexpr Bytes kCap = Bytes{1} << 20;

}  // namespace

TEST(StagingPool, BlocksOfASizeTakeTurnsUntilTheyComeToAQuarterOfAMegabyteAndAMultipleOfWhatACallHasAtOnce) {
  for (std::size_t at_once : {1, 2, 3, 4, 16, 100}) {
    Region region = Region::create(1, StagingPool::region_bytes(64 * kCap), 5);
    StagingPool pool(region, region.staging_offset(1), 64 * kCap, 0);
    for (Bytes bytes : {Bytes{4} << 10, Bytes{32} << 10, Bytes{64} << 10, Bytes{256} << 10, Bytes{4} << 20}) {
      std::vector<std::byte*> used;
      const std::size_t most = (4 << 20) / bytes;
      const std::size_t turns = std::min(most, round_up(std::max<Bytes>(1, (256 << 10) / bytes), at_once));
      for (std::size_t call = 0; call < 3 * turns; ++call) {
        used.push_back(pool.take(bytes, 1, Need::can_wait, at_once));
        ASSERT_NE(used.back(), nullptr);
        StagingPool::readers_of(used.back()).store(0);
        if (call < turns)
          EXPECT_EQ(std::count(used.begin(), used.end(), used.back()), 1) << at_once << ' ' << bytes;
        else
          EXPECT_EQ(used.back(), used[call - turns]) << at_once << ' ' << bytes;
      }
    }
  }
}

TEST(StagingPool, AfterABurstTheSameFewTakeTurns) {
  Region region = Region::create(1, StagingPool::region_bytes(16 * kCap), 5);
  StagingPool pool(region, region.staging_offset(1), 16 * kCap, 0);
  std::vector<std::byte*> burst;
  for (int i = 0; i < 30; ++i) burst.push_back(pool.take(64 << 10, 1, Need::can_wait));
  for (std::byte* block : burst) StagingPool::readers_of(block).store(0);
  std::set<std::byte*> used;
  for (int i = 0; i < 100; ++i) {
    used.insert(pool.take(64 << 10, 1, Need::can_wait));
    for (std::byte* block : burst) StagingPool::readers_of(block).store(0);
  }
  EXPECT_EQ(used.size(), 4u);
}

TEST(StagingPool, StopsAtItsCapForWhoCanWaitAndGoesBeyondItForWhoCannot) {
  Region region = Region::create(1, StagingPool::region_bytes(kCap), 5);
  StagingPool pool(region, region.staging_offset(1), kCap, 0);
  std::vector<std::byte*> blocks;
  while (std::byte* block = pool.take(4096, 1, Need::can_wait)) blocks.push_back(block);
  EXPECT_GT(blocks.size(), 200u);
  EXPECT_LE(pool.taken(), kCap);
  EXPECT_EQ(pool.take(100, 1, Need::can_wait), nullptr);
  std::byte* pressing = pool.take(4096, 1, Need::now);
  ASSERT_NE(pressing, nullptr);
  EXPECT_EQ(std::count(blocks.begin(), blocks.end(), pressing), 0);
  StagingPool::readers_of(blocks[100]).store(0);
  EXPECT_EQ(pool.take(3000, 1, Need::can_wait), blocks[100]) << "what was released is used again";
  EXPECT_EQ(pool.take(4096, 1, Need::can_wait), nullptr);
  while (pool.take(4096, 1, Need::now)) continue;
  EXPECT_LE(pool.taken(), StagingPool::region_bytes(kCap));
}

TEST(StagingPool, ABlockWithReadersIsNeverHandedOut) {
  Region region = Region::create(1, StagingPool::region_bytes(kCap), 5);
  StagingPool pool(region, region.staging_offset(1), kCap, 0);
  std::vector<std::byte*> held;
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes = round % 3 ? 3000 : 200;
    std::byte* block = pool.take(bytes, 2, Need::can_wait);
    ASSERT_NE(block, nullptr);
    for (const std::byte* other : held) ASSERT_NE(block, other);
    held.push_back(block);
    if (held.size() < 20) continue;
    std::byte* done = held[static_cast<std::size_t>(round * 7) % held.size()];
    StagingPool::readers_of(done).fetch_sub(2);
    std::erase(held, done);
  }
}

TEST(StagingPool, BlocksOfMoreThanFourKilobytesComeFromTheRingAndWhatItRefusesFromElsewhere) {
  constexpr Bytes kMostOfRing = kCap / 4;
  Region region = Region::create(1, StagingPool::region_bytes(kCap), 5);
  StagingPool pool(region, region.staging_offset(1), kCap, 64 << 10);
  pool.prepare();
  const std::byte *first = region.at(region.staging_offset(1)), *end = first + kMostOfRing;
  auto is_of_ring = [&](const std::byte* block) { return block >= first && block < end; };
  EXPECT_FALSE(is_of_ring(pool.take(4096, 1, Need::can_wait)));
  EXPECT_FALSE(is_of_ring(pool.take((17 << 10) + 1, 1, Need::can_wait)));
  EXPECT_FALSE(is_of_ring(pool.keep(8192, 1)));
  EXPECT_EQ(pool.take(4097, 1, Need::can_wait), first);
  Bytes of_ring = 1;
  while (is_of_ring(pool.take(8192, 1, Need::can_wait))) ++of_ring;
  EXPECT_GE(of_ring, kMostOfRing / (8192 + 64) - 1) << "it grows before others are made";
  EXPECT_NE(pool.take(8192, 1, Need::can_wait), nullptr);
}

// Whatever the sizes of the ring at first and of the payloads: its low bits say what a block is.
TEST(StagingPool, BlocksAreAlignedAndApart) {
  std::mt19937 random(7);
  auto below = [&](Bytes most) { return static_cast<Bytes>(random() % most); };
  for (int turn = 0; turn < 200; ++turn) {
    const Bytes cap = 32 * kCap, ring = 1 + below(5 * kCap);
    Region region = Region::create(1, StagingPool::region_bytes(cap), 5);
    StagingPool pool(region, region.staging_offset(1), cap, ring);
    pool.prepare();
    std::map<const std::byte*, Bytes> held;
    for (int i = 0; i < 60; ++i) {
      const Bytes payload = 1 + below(i % 2 ? 64 << 10 : 700 << 10);
      std::byte* block = pool.take(payload, 1, Need::can_wait, 1 + below(3));
      if (!block) continue;
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignof(BlockHead), 0u) << ring << ' ' << payload;
      const auto next = held.lower_bound(block);
      ASSERT_TRUE(next == held.end() || block + sizeof(BlockHead) + payload <= next->first);
      ASSERT_TRUE(next == held.begin() || std::prev(next)->first + std::prev(next)->second <= block);
      held[block] = sizeof(BlockHead) + payload;
      if (held.size() < 1 + below(12)) continue;
      const auto done = std::next(held.begin(), static_cast<std::ptrdiff_t>(below(held.size())));
      StagingPool::readers_of(done->first).store(0);
      held.erase(done);
    }
  }
}

}  // namespace ddl
