#include "core/gradient/fusion.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

using Indices = std::vector<std::vector<std::size_t>>;

constexpr FusionClass kFloats{DType::float32, Op::sum, {}}, kLongs{DType::int64, Op::max, {}};

}  // namespace

TEST(Fusion, BatchesAreOfOneClassAndInTheOrderOfTheCalls) {
  const std::vector<Part> parts = {{kFloats, 1}, {kLongs, 1}, {kFloats, 2}, {kLongs, 2}, {kFloats, 3}};
  EXPECT_EQ(cut_batches(parts, 1000), (Indices{{0, 2, 4}, {1, 3}}));
}

TEST(Fusion, ABatchTakesNoMoreThanItMayUnlessItIsOneCall) {
  const std::vector<Part> parts = {{kFloats, 5}, {kFloats, 5}, {kFloats, 1}, {kFloats, 99}, {kFloats, 1}};
  EXPECT_EQ(cut_batches(parts, 40), (Indices{{0, 1}, {2}, {3}, {4}}));
}

TEST(Fusion, NoCallsMakeNoBatch) { EXPECT_TRUE(cut_batches({}, 40).empty()); }

TEST(Fusion, CallsOfAnotherTypeOnTheWireAreAnotherClass) {
  FusionClass narrow = kFloats;
  narrow.wire = {DType::float32, WireType::bfloat16};
  const std::vector<Part> parts = {{kFloats, 1}, {narrow, 1}, {kFloats, 1}};
  EXPECT_EQ(cut_batches(parts, 40), (Indices{{0, 2}, {1}}));
}

TEST(Fusion, CallsOfAnotherVariantAreAnotherClass) {
  FusionClass averages = kFloats;
  averages.variant = 2;
  const std::vector<Part> parts = {{kFloats, 1}, {averages, 1}, {kFloats, 1}};
  EXPECT_EQ(cut_batches(parts, 40), (Indices{{0, 2}, {1}}));
}

TEST(Fusion, PlacesOfACutAreUsedAgain) {
  Batches batches;
  cut_batches(std::vector<Part>(9, {kFloats, 5}), 40, batches);
  cut_batches(std::vector<Part>{{kFloats, 3}, {kLongs, 2}, {kFloats, 1}}, 40, batches);
  EXPECT_EQ(batches.of, (std::vector<std::size_t>{0, 1, 0}));
  EXPECT_EQ(batches.bytes, (std::vector<Bytes>{16, 16}));
}

TEST(Fusion, ElementsOfDifferentCallsShareNoScale) {
  FusionClass scaled = kFloats;
  scaled.wire = {DType::float32, WireType::int8};
  EXPECT_EQ((Part{scaled, 17}.room()), 32u);
  EXPECT_EQ((Part{kFloats, 17}.room()), 17u);
}

TEST(Fusion, WhatIsLargeGoesAlone) {
  for (bool spans_hosts : {false, true}) {
    const FusionRule rule = fusion_rule(Bytes{1} << 30, spans_hosts);
    EXPECT_TRUE(rule.takes(rule.largest_call));
    EXPECT_FALSE(rule.takes(rule.largest_call + 1));
    EXPECT_FALSE(rule.takes(0));
    EXPECT_LE(rule.largest_call, rule.largest_batch);
    const FusionRule low = fusion_rule(2048, spans_hosts);
    EXPECT_FALSE(low.takes(2048)) << "it reaches the threshold by itself";
    EXPECT_TRUE(low.takes(2047));
    EXPECT_EQ(low.largest_batch, 2048u);
    EXPECT_FALSE(fusion_rule(0, spans_hosts).takes(4));
  }
  const FusionRule staged = staged_fusion_rule(Bytes{1} << 30);
  EXPECT_TRUE(staged.takes(staged.largest_call));
  EXPECT_FALSE(staged.takes(staged.largest_call + 1));
  EXPECT_EQ(staged_fusion_rule(2048).largest_batch, 2048u);
  EXPECT_FALSE(staged_fusion_rule(0).takes(4));
}

}  // namespace ddl
