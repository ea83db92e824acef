#include "core/collective/own_calls.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

Call call_of(Elements count) {
  return {nullptr, nullptr, count, DType::int32, Op::sum, "MPI_Bcast", 0, Kind::broadcast, 3};
}

}  // namespace

TEST(OwnCalls, KnowTheLastOnesByTheirNumber) {
  OwnCalls calls;
  EXPECT_FALSE(calls.find(0));
  for (OwnCalls::Number number = 0; number < 3 * OwnCalls::kKnown; ++number) {
    calls.note(number, OwnCalls::note_of(call_of(number + 1), static_cast<Fingerprint>(number), {}));
    for (OwnCalls::Number known = number - std::min<OwnCalls::Number>(number, OwnCalls::kKnown - 1);
         known <= number; ++known) {
      ASSERT_TRUE(calls.find(known)) << known << " of " << number;
      EXPECT_EQ(calls.find(known)->fingerprint, known);
      EXPECT_EQ(calls.find(known)->title, title_of(call_of(known + 1)));
    }
    EXPECT_FALSE(calls.find(number + 1));
  }
  EXPECT_FALSE(calls.find(2 * OwnCalls::kKnown - 1)) << "it was overwritten";
}

TEST(OwnCalls, SayWhatTheCallWouldSay) {
  const std::uint64_t counts = 4;
  Call part = call_of(4), own = call_of(4), unequal = call_of(4), piece = call_of(4);
  part.is_part = true;
  own.kind = Kind::all_reduce;
  own.own.combine = [](void*, const void*, void*, Elements) {};
  unequal.in_blocks.counts = &counts;
  unequal.lengths = 77;
  unequal.pairwise = true;
  piece.whole = 400;
  const WireFormat narrow{DType::float32, WireType::bfloat16, WireWhere::between};
  OwnCalls calls;
  OwnCalls::Number number = 0;
  for (const Call& call : {part, own, unequal, piece})
    for (const WireFormat& wire : {WireFormat{}, narrow}) {
      calls.note(number, OwnCalls::note_of(call, 1, wire));
      EXPECT_EQ(calls.find(number)->title, title_of(call, wire));
      EXPECT_EQ(calls.find(number++)->is_pairwise, call.pairwise);
    }
}

}  // namespace ddl
