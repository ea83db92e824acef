#include "core/gradient/fusion_memory.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace ddl {
namespace {

using FusionNeed = FusionMemory::Need;
constexpr Bytes kBlock = 64 << 10;

}  // namespace

TEST(FusionMemory, WhoCanWaitGetsNothingBeyondTheLimit) {
  FusionMemory memory(2 * kBlock);
  FusionMemory::Block first = memory.take(1, FusionNeed::can_wait), second = memory.take(kBlock, FusionNeed::can_wait);
  EXPECT_EQ(first.bytes, kBlock);
  EXPECT_FALSE(memory.take(1, FusionNeed::can_wait).memory);
  EXPECT_TRUE(memory.take(1, FusionNeed::pressing).memory);
}

TEST(FusionMemory, ABlockComesBackAndWhatIsKeptIsBounded) {
  FusionMemory memory(4 * kBlock);
  FusionMemory::Block block = memory.take(kBlock, FusionNeed::can_wait);
  const std::byte* where = block.memory.get();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(where) % 64, 0u);
  memory.give_back(std::move(block));
  block = memory.take(kBlock, FusionNeed::can_wait);
  EXPECT_EQ(block.memory.get(), where);
  memory.give_back(std::move(block));
  EXPECT_TRUE(memory.take(4 * kBlock, FusionNeed::can_wait).memory) << "an idle block is in the way";
  EXPECT_EQ(memory.most_taken(), 4 * kBlock);
}

}  // namespace ddl
