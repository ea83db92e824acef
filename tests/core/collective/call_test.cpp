#include "core/collective/call.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ddl {
namespace {

Call call_of(Kind kind, Rank root = 0, Elements count = 100, Op op = Op::sum) {
  return {nullptr, nullptr, count, DType::float32, op, "", 0, kind, root};
}

}  // namespace

TEST(Call, TheFingerprintTellsKindRootCountAndOperation) {
  std::set<Fingerprint> seen;
  std::size_t calls = 0;
  for (int kind = 0; kind < kKinds; ++kind) {
    auto k = static_cast<Kind>(kind);
    if (k == Kind::receive) continue;
    for (Rank root = 0; root < (has_root(k) ? 300 : 1); ++root)
      for (Elements count : {1, 2, 100})
        for (Op op : {Op::sum, Op::max}) {
          if (!computes(k) && op != Op::sum) continue;
          seen.insert(fingerprint_of(call_of(k, root, count, op)));
          ++calls;
        }
  }
  EXPECT_EQ(seen.size(), calls);
}

TEST(Call, WhatAKindDoesNotUseIsNotCompared) {
  EXPECT_EQ(fingerprint_of(call_of(Kind::broadcast, 1, 9, Op::sum)),
            fingerprint_of(call_of(Kind::broadcast, 1, 9, Op::max)));
  EXPECT_EQ(fingerprint_of(call_of(Kind::all_gather, 1)), fingerprint_of(call_of(Kind::all_gather, 2)));
}

TEST(Call, BothEndsOfASendAreOneCall) {
  EXPECT_EQ(fingerprint_of(call_of(Kind::send, 3)), fingerprint_of(call_of(Kind::receive, 1)));
}

TEST(Call, APieceKnowsTheWholeItIsOf) {
  Call piece = call_of(Kind::all_reduce), of_another = piece;
  piece.whole = 400;
  of_another.whole = 500;
  EXPECT_NE(fingerprint_of(piece), fingerprint_of(of_another));
  EXPECT_EQ(describe(piece), "all-reduce of 400 float32, sum");
}

TEST(Call, IsDescribedForPeople) {
  EXPECT_EQ(describe(call_of(Kind::all_reduce)), "all-reduce of 100 float32, sum");
  EXPECT_EQ(describe(call_of(Kind::broadcast, 3)), "broadcast of 100 float32 from rank 3");
  EXPECT_EQ(describe(call_of(Kind::reduce, 0, 7, Op::max)), "reduce of 7 float32, max to rank 0");
  EXPECT_EQ(describe(call_of(Kind::all_to_all, 3)), "all-to-all of 100 float32");
  EXPECT_EQ(describe(call_of(Kind::receive, 2)), "receive of 100 float32 from rank 2");
}

TEST(Call, IsABarrierWhenOnlyThatAllHaveComeMatters) {
  auto is_one = [](Elements count, DType type, Op op) {
    return is_barrier({nullptr, nullptr, count, type, op});
  };
  EXPECT_TRUE(is_one(1, DType::uint8, Op::bor));
  EXPECT_FALSE(is_one(2, DType::uint8, Op::bor));
  EXPECT_FALSE(is_one(1, DType::int32, Op::bor));
  EXPECT_FALSE(is_one(1, DType::uint8, Op::sum));
}

}  // namespace ddl
