#include "core/stream/stream_owners.hpp"

#include <gtest/gtest.h>

namespace ddl::stream_owners {
namespace {

cuda::Context context(std::uintptr_t number) { return reinterpret_cast<cuda::Context>(number); }
cuda::Stream stream(std::uintptr_t number) { return reinterpret_cast<cuda::Stream>(number * 4096); }

struct Member : Owner {
  explicit Member(std::uint8_t of_group) { group[0] = of_group; }
  ~Member() { forget(*this); }
};

TEST(StreamOwners, TwoRanksOfOneCommunicatorMayNotHaveCallsUnderWayOnOneStream) {
  Member one(1), other(1);
  EXPECT_TRUE(claim(context(1), stream(1), one));
  EXPECT_TRUE(claim(context(1), stream(1), one));
  EXPECT_FALSE(claim(context(1), stream(1), other));
  EXPECT_TRUE(claim(context(1), stream(2), other));
  one.under_way = 0;
  EXPECT_TRUE(claim(context(1), stream(1), other));
}

TEST(StreamOwners, TheDefaultStreamHasTwoNamesAndIsAnotherOneInEachContext) {
  Member one(1), other(1);
  EXPECT_TRUE(claim(context(1), nullptr, one));
  EXPECT_FALSE(claim(context(1), cuda::kStreamLegacy, other));
  EXPECT_TRUE(claim(context(2), nullptr, other));
  EXPECT_TRUE(claim(context(1), cuda::kStreamPerThread, one));
  EXPECT_TRUE(claim(context(1), cuda::kStreamPerThread, other));
}

TEST(StreamOwners, CommunicatorsDoNotKnowEachOther) {
  Member one(1), other(2);
  EXPECT_TRUE(claim(context(1), stream(1), one));
  EXPECT_TRUE(claim(context(1), stream(1), other));
}

TEST(StreamOwners, WhoIsGoneOwnsNothing) {
  Member other(1);
  {
    Member one(1);
    EXPECT_TRUE(claim(context(1), stream(1), one));
  }
  EXPECT_TRUE(claim(context(1), stream(1), other));
}

}  // namespace
}  // namespace ddl::stream_owners
