#include "core/gradient/fusion.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

using Batches = std::vector<std::vector<std::size_t>>;

constexpr FusionClass kFloats{DType::float32, Op::sum, {}}, kLongs{DType::int64, Op::max, {}};

}  // namespace

TEST(Fusion, BatchesAreOfOneClassAndInTheOrderOfTheCalls) {
  const std::vector<Part> parts = {{kFloats, 1}, {kLongs, 1}, {kFloats, 2}, {kLongs, 2}, {kFloats, 3}};
  EXPECT_EQ(cut_batches(parts, 1000), (Batches{{0, 2, 4}, {1, 3}}));
}

TEST(Fusion, ABatchTakesNoMoreThanItMayUnlessItIsOneCall) {
  const std::vector<Part> parts = {{kFloats, 5}, {kFloats, 5}, {kFloats, 1}, {kFloats, 99}, {kFloats, 1}};
  EXPECT_EQ(cut_batches(parts, 40), (Batches{{0, 1}, {2}, {3}, {4}}));
}

TEST(Fusion, NoCallsMakeNoBatch) { EXPECT_TRUE(cut_batches({}, 40).empty()); }

TEST(Fusion, CallsOfAnotherTypeOnTheWireAreAnotherClass) {
  FusionClass narrow = kFloats;
  narrow.wire = {DType::float32, WireType::bfloat16};
  const std::vector<Part> parts = {{kFloats, 1}, {narrow, 1}, {kFloats, 1}};
  EXPECT_EQ(cut_batches(parts, 40), (Batches{{0, 2}, {1}}));
}

TEST(Fusion, ElementsOfDifferentCallsShareNoScale) {
  FusionClass scaled = kFloats;
  scaled.wire = {DType::float32, WireType::int8};
  EXPECT_EQ((Part{scaled, 17}.room()), 32u);
  EXPECT_EQ((Part{kFloats, 17}.room()), 17u);
}

TEST(Fusion, WhatIsLargeGoesAlone) {
  const FusionRule rule{Bytes{1} << 30};
  EXPECT_TRUE(rule.takes(FusionRule::kLargestCall));
  EXPECT_FALSE(rule.takes(FusionRule::kLargestCall + 1));
  EXPECT_FALSE(rule.takes(0));
  EXPECT_EQ(rule.largest_batch(), FusionRule::kLargestBatch);
  EXPECT_FALSE(FusionRule{4096}.takes(4096));
  EXPECT_TRUE(FusionRule{4096}.takes(4095));
  EXPECT_EQ(FusionRule{4096}.largest_batch(), 4096u);
  EXPECT_FALSE(FusionRule{}.takes(4));
}

}  // namespace ddl
