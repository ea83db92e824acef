#include "core/transport/block_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ddl {
namespace {

constexpr Bytes kBytes = 64 << 10;
constexpr Nanoseconds kLines = kBytes / 64, kNearTime = kLines * 5, kFarTime = kLines * 15;

// As many copies as there are between two looks, and what a look says.
void look(BlockCopy& copy, Nanoseconds time, BlockCopy::From source = BlockCopy::From::caches) {
  for (int i = 0; !copy.looks(source); ++i) ASSERT_LT(i, 1000);
  copy.note(kBytes, time, source);
}

}  // namespace

TEST(BlockCopy, GoesPastTheCacheAfterThreeInARowThatWaitedForTheirLines) {
  BlockCopy copy;
  look(copy, kFarTime);
  look(copy, kFarTime);
  EXPECT_FALSE(copy.is_far());
  look(copy, kNearTime);
  look(copy, kFarTime);
  look(copy, kFarTime);
  EXPECT_FALSE(copy.is_far()) << "these were not in a row";
  look(copy, kFarTime);
  EXPECT_TRUE(copy.is_far());
}

TEST(BlockCopy, GoesThroughTheCacheAgainWhenLinesAreNear) {
  BlockCopy copy;
  for (int i = 0; i < BlockCopy::kInARow; ++i) look(copy, kFarTime);
  look(copy, kFarTime);
  look(copy, kNearTime);
  look(copy, kNearTime);
  EXPECT_TRUE(copy.is_far());
  look(copy, kNearTime);
  EXPECT_FALSE(copy.is_far());
}

TEST(BlockCopy, WhatComesFromMemoryMayTakeLongerAndIsToldApart) {
  constexpr BlockCopy::From kMemory = BlockCopy::From::memory;
  BlockCopy copy;
  for (int i = 0; i < BlockCopy::kInARow; ++i) look(copy, kFarTime, kMemory);
  EXPECT_FALSE(copy.is_far(kMemory));
  for (int i = 0; i < BlockCopy::kInARow; ++i) look(copy, 2 * kFarTime, kMemory);
  EXPECT_TRUE(copy.is_far(kMemory));
  EXPECT_FALSE(copy.is_far());
}

TEST(BlockCopy, LooksNowAndThen) {
  BlockCopy copy;
  auto copies_to_next_look = [&] {
    int copies = 1;
    while (!copy.looks()) ++copies;
    return copies;
  };
  EXPECT_EQ(copies_to_next_look(), 1);
  copy.note(kBytes, kNearTime);
  EXPECT_EQ(copies_to_next_look(), BlockCopy::kLookEvery);
  for (int i = 0; i < BlockCopy::kInARow; ++i) look(copy, kFarTime);
  EXPECT_EQ(copies_to_next_look(), BlockCopy::kLookFromAfarEvery);
}

TEST(BlockCopy, CopiesTheSameEitherWay) {
  std::vector<std::byte> from(kBytes + 64), block(kBytes + 64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7);
  BlockCopy near, far;
  for (int i = 0; i < BlockCopy::kInARow; ++i) look(far, kFarTime);
  for (int i = 0; i < BlockCopy::kInARow; ++i) look(far, 2 * kFarTime, BlockCopy::From::memory);
  for (BlockCopy* copy : {&near, &far})
    for (Bytes bytes : {Bytes{1}, BlockCopy::kLeast - 1, BlockCopy::kLeast, kBytes - 13})
      for (const auto& [shift, source] : {std::pair{Bytes{0}, BlockCopy::From::caches},
                                          {Bytes{3}, BlockCopy::From::caches},
                                          {Bytes{3}, BlockCopy::From::memory}}) {
        std::fill(block.begin(), block.end(), std::byte{0});
        copy->copy(block.data() + shift, from.data() + 1, bytes, source);
        EXPECT_TRUE(std::equal(from.begin() + 1, from.begin() + 1 + static_cast<std::ptrdiff_t>(bytes),
                               block.begin() + static_cast<std::ptrdiff_t>(shift)));
        EXPECT_EQ(block[shift + bytes], std::byte{0});
      }
}

}  // namespace ddl
