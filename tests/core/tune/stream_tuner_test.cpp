#include "core/tune/stream_tuner.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

using Way = StreamTuner::Way;

constexpr Bytes kClass = 1 << 20;
constexpr Fingerprint kCall = 7;

// Makes calls until the ranks are to agree; how each was made.
std::vector<Way> tries(StreamTuner& tuner) {
  std::vector<Way> ways;
  do ways.push_back(tuner.next(kClass, kCall));
  while (!tuner.must_agree(kClass) && ways.size() < 100);
  EXPECT_TRUE(tuner.must_agree(kClass));
  return ways;
}

StreamTuner::Times times(std::int64_t whole, std::int64_t plan) {
  StreamTuner::Times all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i < StreamTuner::kRounds ? whole : plan;
  return all;
}

}  // namespace

TEST(StreamTuner, BothWaysAreTriedAndTheFirstOfEachDoesNotCount) {
  StreamTuner tuner;
  std::vector<Way> ways = tries(tuner);
  ASSERT_EQ(ways.size(), 1 + StreamTuner::kTries) << "a first call, then the tries";
  EXPECT_FALSE(ways[0].attempt);
  std::vector<std::size_t> counted;
  for (std::size_t i = 0; i < StreamTuner::kTries; ++i) {
    EXPECT_EQ(ways[1 + i].attempt, i);
    EXPECT_EQ(ways[1 + i].by_plan, i >= StreamTuner::kTries / 2);
    if (auto at = StreamTuner::time_of(i)) {
      counted.push_back(*at);
      EXPECT_EQ(*at >= StreamTuner::kRounds, ways[1 + i].by_plan) << "its time is among those of its way";
    }
  }
  ASSERT_EQ(counted.size(), std::tuple_size_v<StreamTuner::Times>);
  for (std::size_t i = 0; i < counted.size(); ++i) EXPECT_EQ(counted[i], i);
}

TEST(StreamTuner, CallsGoWholeUntilTheAgreedOne) {
  StreamTuner tuner;
  tries(tuner);
  EXPECT_FALSE(tuner.next(kClass, kCall).by_plan) << "nothing is known yet";
  tuner.decide(kClass, times(100, 50), tuner.calls() + 3);
  for (int i = 0; i < 2; ++i) {
    Way way = tuner.next(kClass, kCall);
    EXPECT_FALSE(way.by_plan || way.settled || way.attempt);
  }
  Way way = tuner.next(kClass, kCall);
  EXPECT_TRUE(way.by_plan && way.settled);
  EXPECT_FALSE(way.attempt);
  EXPECT_TRUE(tuner.next(kClass, kCall + 1).by_plan) << "also other calls of the class";
}

TEST(StreamTuner, AgreedCallsAreCountedOverAllClasses) {
  StreamTuner tuner;
  tries(tuner);
  tuner.decide(kClass, times(100, 50), tuner.calls() + 3);
  tuner.next(2 * kClass, kCall);
  tuner.next(2 * kClass, kCall);
  EXPECT_TRUE(tuner.next(kClass, kCall).by_plan);
}

TEST(StreamTuner, APlanThatIsHardlyFasterLosesAgainstTheWhole) {
  StreamTuner tuner;
  tries(tuner);
  tuner.decide(kClass, times(100, 97), tuner.calls() + 1);
  Way way = tuner.next(kClass, kCall);
  EXPECT_TRUE(way.settled);
  EXPECT_FALSE(way.by_plan);
}

TEST(StreamTuner, ANewSubjectMakesTheOldTriesVoid) {
  StreamTuner tuner;
  for (int i = 0; i < 4; ++i) tuner.next(kClass, kCall);
  std::optional<std::size_t> first;
  for (int i = 0; i < 100 && !first; ++i) first = tuner.next(kClass, kCall + 1).attempt;
  EXPECT_EQ(first, 0u) << "its tries begin anew";
}

}  // namespace ddl
