#include "core/gradient/sparse_rule.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace ddl {
namespace {

using Chunks = std::vector<std::uint32_t>;

TEST(SparseRule, AllIsSentInTheWarmUpAndThenLessAndLess) {
  const SparseSettings settings{0.1, 0, 10};
  for (std::uint32_t time = 0; time < 10; ++time) EXPECT_EQ(chunks_sent(settings, 1000, time), 1000u);
  Elements before = 1000;
  for (std::uint32_t time = 10; time < 20; ++time) {
    const Elements sent = chunks_sent(settings, 1000, time);
    EXPECT_LT(sent, before);
    before = sent;
  }
  EXPECT_EQ(before, 100u);
  EXPECT_EQ(chunks_sent(settings, 1000, 1'000'000), 100u);
  EXPECT_EQ(chunks_sent(settings, 15, 20), 2u) << "rounded up";
  EXPECT_EQ(chunks_sent(settings, 1, 20), 1u);
}

TEST(SparseRule, WithoutWarmUpTheShareIsThereAtOnce) {
  EXPECT_EQ(chunks_sent({0.25, 0, 0}, 100, 0), 25u);
  EXPECT_EQ(chunks_sent({1, 0, 0}, 100, 7), 100u);
}

TEST(SparseRule, TheLargestNormsAreChosenInOrder) {
  const std::vector<float> norms = {1, 9, 3, 9, 0, 5};
  EXPECT_EQ(choose_chunks(norms, 1), Chunks{1});
  EXPECT_EQ(choose_chunks(norms, 3), (Chunks{1, 3, 5}));
  EXPECT_EQ(choose_chunks(norms, 6), (Chunks{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(choose_chunks(std::vector<float>(5, 0), 2), (Chunks{0, 1}));
}

TEST(SparseRule, WhatIsNotANumberIsSent) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(choose_chunks(std::vector<float>{1e30F, nan, 3e38F}, 1), Chunks{1});
  EXPECT_EQ(choose_chunks(std::vector<float>{1e30F, 3e38F, inf, nan}, 2), (Chunks{2, 3}));
}

TEST(SparseRule, OnlySumsOfWideFloatsCanBeSparse) {
  EXPECT_TRUE(can_be_sparse(DType::float32, Op::sum));
  EXPECT_TRUE(can_be_sparse(DType::float64, Op::sum));
  EXPECT_FALSE(can_be_sparse(DType::float32, Op::max));
  EXPECT_FALSE(can_be_sparse(DType::float16, Op::sum));
  EXPECT_FALSE(can_be_sparse(DType::int32, Op::sum));
}

}  // namespace
}  // namespace ddl
