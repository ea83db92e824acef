#include "core/stream/call_batches.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

using Batches = std::vector<std::vector<std::size_t>>;
using Scale = StreamCall::Scale;

constexpr FusionRule kRule{1 << 20, 4096, 16384};

StreamCall sum(Elements count, DType type = DType::float32, Scale scale = Scale::none) {
  StreamCall call;
  call.count = count;
  call.type = type;
  call.scale = scale;
  return call;
}

StreamCall on(StreamCall call, int stream) {
  call.stream = reinterpret_cast<cuda::Stream>(static_cast<std::uintptr_t>(0x1000 + stream));
  return call;
}

StreamCall of_kind(Kind kind) {
  StreamCall call = sum(1);
  call.kind = kind;
  return call;
}

Batches cut(CallBatches& batches, const std::vector<StreamCall>& calls) {
  batches.cut(calls, [](const StreamCall&) { return true; });
  Batches cut;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!batches.is_first(i)) continue;
    cut.emplace_back();
    for (std::size_t one = i; one != CallBatches::kLast; one = batches.next(one)) cut.back().push_back(one);
  }
  return cut;
}

TEST(CallBatches, AreOfOneTypeOperationAndScale) {
  CallBatches batches(kRule, {});
  StreamCall most = sum(5);
  most.op = Op::max;
  EXPECT_EQ(cut(batches, {sum(1), sum(2, DType::int32), most, sum(3, DType::float32, Scale::average), sum(4),
                          sum(5, DType::int32), sum(6, DType::float32, Scale::times_scalar)}),
            (Batches{{0, 4}, {1, 5}, {2}, {3}, {6}}));
}

// Each rank chooses its streams for itself.
TEST(CallBatches, AreTheSameWhateverTheStreams) {
  CallBatches batches(kRule, {});
  EXPECT_EQ(cut(batches, {on(sum(1), 1), on(sum(2), 2), on(sum(3), 1)}), (Batches{{0, 1, 2}}));
}

TEST(CallBatches, WhatIsLargeEmptyOrNoAllReduceGoesByItselfAndCutsNothing) {
  CallBatches batches(kRule, {});
  EXPECT_EQ(cut(batches, {sum(1), sum(1025), sum(0), of_kind(Kind::broadcast), sum(1024)}),
            (Batches{{0, 4}, {1}, {2}, {3}}));
}

TEST(CallBatches, ABatchTakesNoMoreThanItMay) {
  CallBatches batches(kRule, {});
  EXPECT_EQ(cut(batches, std::vector<StreamCall>(6, sum(1024))), (Batches{{0, 1, 2, 3}, {4, 5}}));
}

TEST(CallBatches, WhatGoesAnotherWayIsNotFused) {
  CallBatches batches(kRule, {});
  const std::vector<StreamCall> calls = {sum(1), sum(2), sum(3)};
  batches.cut(calls, [](const StreamCall& call) { return call.count != 2; });
  EXPECT_TRUE(batches.is_first(1));
  EXPECT_EQ(batches.next(0), 2u);
}

TEST(CallBatches, TheSizeOfEachCallSaysWhatItTravelsAs) {
  CallBatches batches(kRule, {WireType::int8, 1000});
  EXPECT_EQ(cut(batches, {sum(10), sum(300), sum(20), sum(301)}), (Batches{{0, 2}, {1, 3}}));
  EXPECT_TRUE(batches.wire_of(sum(10)).is_exact());
  EXPECT_EQ(batches.room_of(sum(10)), 10u);
  EXPECT_EQ(batches.room_of(sum(301)), 304u) << "a scale is shared within a call alone";
}

TEST(CallBatches, ACutKnowsNothingOfTheOneBefore) {
  CallBatches batches(kRule, {});
  cut(batches, std::vector<StreamCall>(9, sum(700)));
  EXPECT_EQ(cut(batches, {sum(1), sum(2)}), (Batches{{0, 1}}));
  EXPECT_EQ(cut(batches, {}), Batches{});
}

}  // namespace
}  // namespace ddl
