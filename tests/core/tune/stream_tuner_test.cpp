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

StreamTuner::Times times(const std::vector<std::int64_t>& of_ways) {
  StreamTuner::Times all;
  for (std::int64_t time : of_ways) all.insert(all.end(), StreamTuner::kRounds, time);
  return all;
}

}  // namespace

TEST(StreamTuner, AllWaysAreTriedAndTheFirstOfEachDoesNotCount) {
  for (std::size_t n : {2u, 3u}) {
    StreamTuner tuner(n);
    std::vector<Way> ways = tries(tuner);
    ASSERT_EQ(ways.size(), 1 + tuner.tries()) << "a first call, then the tries";
    EXPECT_FALSE(ways[0].attempt);
    std::vector<std::size_t> counted;
    for (std::size_t i = 0; i < tuner.tries(); ++i) {
      EXPECT_EQ(ways[1 + i].attempt, i);
      EXPECT_EQ(ways[1 + i].index, i / (tuner.tries() / n));
      if (auto at = StreamTuner::time_of(i)) {
        counted.push_back(*at);
        EXPECT_EQ(*at / StreamTuner::kRounds, ways[1 + i].index) << "its time is among those of its way";
      }
    }
    ASSERT_EQ(counted.size(), tuner.times());
    for (std::size_t i = 0; i < counted.size(); ++i) EXPECT_EQ(counted[i], i);
  }
}

TEST(StreamTuner, OfThreeWaysTheFastestIsTaken) {
  for (std::size_t fastest = 0; fastest < 3; ++fastest) {
    StreamTuner tuner(3);
    tries(tuner);
    std::vector<std::int64_t> all(3, 100);
    all[fastest] = 50;
    tuner.decide(kClass, times(all), tuner.calls() + 1);
    EXPECT_EQ(tuner.next(kClass, kCall).index, fastest);
  }
}

TEST(StreamTuner, CallsGoTheFirstWayUntilTheAgreedOne) {
  StreamTuner tuner(2);
  tries(tuner);
  EXPECT_EQ(tuner.next(kClass, kCall).index, 0u) << "nothing is known yet";
  tuner.decide(kClass, times({100, 50}), tuner.calls() + 3);
  for (int i = 0; i < 2; ++i) {
    Way way = tuner.next(kClass, kCall);
    EXPECT_FALSE(way.index > 0 || way.settled || way.attempt);
  }
  Way way = tuner.next(kClass, kCall);
  EXPECT_TRUE(way.index == 1 && way.settled);
  EXPECT_FALSE(way.attempt);
  EXPECT_EQ(tuner.next(kClass, kCall + 1).index, 1u) << "also other calls of the class";
}

TEST(StreamTuner, AgreedCallsAreCountedOverAllClasses) {
  StreamTuner tuner(2);
  tries(tuner);
  tuner.decide(kClass, times({100, 50}), tuner.calls() + 3);
  tuner.next(2 * kClass, kCall);
  tuner.next(2 * kClass, kCall);
  EXPECT_EQ(tuner.next(kClass, kCall).index, 1u);
}

TEST(StreamTuner, APlanThatIsHardlyFasterLosesAgainstTheWhole) {
  StreamTuner tuner(2);
  tries(tuner);
  tuner.decide(kClass, times({100, 97}), tuner.calls() + 1);
  Way way = tuner.next(kClass, kCall);
  EXPECT_TRUE(way.settled);
  EXPECT_EQ(way.index, 0u);
}

TEST(StreamTuner, ANewSubjectMakesTheOldTriesVoid) {
  StreamTuner tuner(2);
  for (int i = 0; i < 4; ++i) tuner.next(kClass, kCall);
  std::optional<std::size_t> first;
  for (int i = 0; i < 100 && !first; ++i) first = tuner.next(kClass, kCall + 1).attempt;
  EXPECT_EQ(first, 0u) << "its tries begin anew";
}

}  // namespace ddl
