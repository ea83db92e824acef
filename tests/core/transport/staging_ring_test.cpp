#include "core/transport/staging_ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "core/transport/region.hpp"

namespace ddl {
namespace {

constexpr Bytes kRing = 64 << 10;

class StagingRingTest : public ::testing::Test {
 protected:
  StagingRingTest() { ring_.grow(kRing); }
  std::byte* take(Bytes bytes, std::size_t at_once = 1) {
    std::byte* block = ring_.take(bytes, at_once);
    if (block) readers(block).store(1);
    return block;
  }
  static std::atomic<std::uint32_t>& readers(std::byte* block) {
    return reinterpret_cast<BlockHead*>(block)->readers;
  }
  static void release(std::byte* block) { readers(block).store(0); }

  std::unique_ptr<std::byte, decltype(&std::free)> memory_{
      static_cast<std::byte*>(std::aligned_alloc(alignof(BlockHead), kRing)), std::free};
  StagingRing ring_{memory_.get()};
};

TEST_F(StagingRingTest, ARingOfNothingRefuses) { EXPECT_EQ(StagingRing(memory_.get()).take(64, 1), nullptr); }

TEST_F(StagingRingTest, EachLineIsUsedAgainWhenAllOthersHaveBeen) {
  for (int round = 0; round < 3; ++round)
    for (Bytes begin = 0; begin + 1024 <= kRing; begin += 1024) {
      std::byte* block = take(1000);
      ASSERT_EQ(block, memory_.get() + begin) << "in round " << round;
      release(block);
    }
}

TEST_F(StagingRingTest, ARoundIsAMultipleOfWhatACallHasUnderWay) {
  std::vector<std::byte*> first;
  for (int i = 0; i < 2 * 6; ++i) {
    std::byte* block = take(10 << 10, 4);  // six would fit, four are a call's
    release(block);
    if (i < 4)
      first.push_back(block);
    else
      EXPECT_EQ(block, first[static_cast<std::size_t>(i) % 4]);
  }
  EXPECT_NE(take(10 << 10, 7), nullptr) << "more than fit are no reason to refuse one";
}

TEST_F(StagingRingTest, ARoundMayBeginShortAndBecomesLongerWithEach) {
  StagingRing ring(memory_.get(), 16 << 10);
  ring.grow(kRing);
  std::vector<int> rounds;
  for (int i = 0; i < 1000; ++i) {
    std::byte* block = ring.take(1024, 1);
    ASSERT_NE(block, nullptr);
    release(block);
    if (block == memory_.get()) rounds.push_back(0);
    ++rounds.back();
  }
  EXPECT_EQ(rounds[0], 16);
  EXPECT_TRUE(std::is_sorted(rounds.begin(), rounds.end() - 1));
  EXPECT_GT(rounds[3], 16);
  EXPECT_LT(rounds[3], 32) << "not all at once";
  EXPECT_EQ(rounds[rounds.size() - 2], 64) << "none is longer than the ring";
}

TEST_F(StagingRingTest, AShortRoundIsNoReasonToRefuse) {
  StagingRing ring(memory_.get(), 8 << 10);
  ring.grow(kRing);
  std::set<std::byte*> taken;
  for (int i = 0; i < 64; ++i) {
    std::byte* block = ring.take(1024, 1);
    ASSERT_NE(block, nullptr) << i;
    readers(block).store(1);
    taken.insert(block);
  }
  EXPECT_EQ(taken.size(), 64u) << "none of them twice";
  EXPECT_EQ(ring.take(1024, 1), nullptr);
  for (std::byte* block : taken) release(block);
  EXPECT_NE(StagingRing(ring).take(32 << 10, 1), nullptr) << "a call may have more than a round";
}

TEST_F(StagingRingTest, WhatIsBeingReadIsLeftOut) {
  std::byte* slow = take(4096);
  std::byte* slow_too = take(8192);
  for (int i = 0; i < 100; ++i) {
    std::byte* block = take(i % 2 ? 4096 : 20'000);
    ASSERT_NE(block, nullptr);
    ASSERT_GE(block, slow_too + 8192);
    release(block);
  }
  release(slow);
  release(slow_too);
  std::byte* block = nullptr;
  for (int i = 0; i < 3 && block != slow; ++i) release(block = take(40'000));
  EXPECT_EQ(block, slow) << "it is found once it is free";
}

TEST_F(StagingRingTest, WhereAllIsBeingReadItRefusesUntilSomethingIsFree) {
  std::deque<std::byte*> held;
  while (std::byte* block = take(4096)) held.push_back(block);
  EXPECT_EQ(held.size(), kRing / 4096);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(take(4096), nullptr);
  release(held[9]);
  std::byte* block = nullptr;
  for (int i = 0; i < 4 && !block; ++i) block = take(4096);
  EXPECT_EQ(block, held[9]);
  EXPECT_EQ(take(kRing + 1), nullptr);
}

TEST_F(StagingRingTest, AGrownOneGoesOnInWhatIsNew) {
  StagingRing small(memory_.get());
  small.grow(kRing / 2);
  std::vector<std::byte*> held;
  while (std::byte* block = small.take(4096, 1)) {
    readers(block).store(1);
    held.push_back(block);
  }
  small.grow(kRing / 2);
  std::byte* block = small.take(4096, 1);
  EXPECT_EQ(block, memory_.get() + kRing / 2);
  readers(block).store(1);
  for (std::byte* one : held) release(one);
  for (Bytes place = kRing / 2 + 4096; place < kRing; place += 4096)
    EXPECT_EQ(small.take(4096, 1), memory_.get() + place);
  EXPECT_EQ(small.take(4096, 1), memory_.get());
}

// Whatever is released when: no block overlaps one that is being read.
TEST_F(StagingRingTest, NoTwoBlocksOverlap) {
  std::minstd_rand random(7);
  struct Held {
    std::byte *begin, *end;
  };
  std::vector<Held> held;
  std::size_t taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Bytes bytes = 64 + random() % (i % 100 < 50 ? 500 : 9000);
    if (std::byte* block = take(bytes, 1 + random() % 3)) {
      ++taken;
      ASSERT_GE(block, memory_.get());
      ASSERT_LE(block + bytes, memory_.get() + kRing);
      for (const Held& other : held)
        ASSERT_TRUE(block + bytes <= other.begin || block >= other.end) << "at " << i;
      held.push_back({block, block + bytes});
    }
    while (!held.empty() && (held.size() > 12 || random() % 3 == 0)) {
      auto one = held.begin() + static_cast<std::ptrdiff_t>(random() % held.size());
      release(one->begin);
      held.erase(one);
    }
  }
  EXPECT_GT(taken, 15'000u);
}

}  // namespace
}  // namespace ddl
