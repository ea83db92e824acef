#include "core/tune/stream_tuner.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

constexpr Bytes kClass = 1 << 20;
constexpr Fingerprint kCall = 7;

// Makes calls until the ranks are to agree; how each was made.
std::vector<StreamTuner::Choice> trials(StreamTuner& tuner) {
  std::vector<StreamTuner::Choice> routes;
  do routes.push_back(tuner.next(kClass, kCall));
  while (!tuner.must_agree(kClass) && routes.size() < 100);
  EXPECT_TRUE(tuner.must_agree(kClass));
  return routes;
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
    std::vector<StreamTuner::Choice> routes = trials(tuner);
    ASSERT_EQ(routes.size(), 1 + tuner.trials()) << "a first call, then the tries";
    EXPECT_FALSE(routes[0].attempt);
    std::vector<std::size_t> counted;
    for (std::size_t i = 0; i < tuner.trials(); ++i) {
      EXPECT_EQ(routes[1 + i].attempt, i);
      EXPECT_EQ(routes[1 + i].index, i / (tuner.trials() / n));
      if (auto at = StreamTuner::time_of(i)) {
        counted.push_back(*at);
        EXPECT_EQ(*at / StreamTuner::kRounds, routes[1 + i].index) << "its time is among those of its way";
      }
    }
    ASSERT_EQ(counted.size(), tuner.times());
    for (std::size_t i = 0; i < counted.size(); ++i) EXPECT_EQ(counted[i], i);
  }
}

TEST(StreamTuner, OfThreeWaysTheFastestIsTaken) {
  for (std::size_t fastest = 0; fastest < 3; ++fastest) {
    StreamTuner tuner(3);
    trials(tuner);
    std::vector<std::int64_t> all(3, 100);
    all[fastest] = 50;
    tuner.decide(kClass, times(all), tuner.calls() + 1);
    EXPECT_EQ(tuner.next(kClass, kCall).index, fastest);
  }
}

TEST(StreamTuner, CallsGoTheFirstWayUntilTheAgreedOne) {
  StreamTuner tuner(2);
  trials(tuner);
  EXPECT_EQ(tuner.next(kClass, kCall).index, 0u) << "nothing is known yet";
  tuner.decide(kClass, times({100, 50}), tuner.calls() + 3);
  for (int i = 0; i < 2; ++i) {
    StreamTuner::Choice route = tuner.next(kClass, kCall);
    EXPECT_FALSE(route.index > 0 || route.settled || route.attempt);
  }
  StreamTuner::Choice route = tuner.next(kClass, kCall);
  EXPECT_TRUE(route.index == 1 && route.settled);
  EXPECT_FALSE(route.attempt);
  EXPECT_EQ(tuner.next(kClass, kCall + 1).index, 1u) << "also other calls of the class";
}

TEST(StreamTuner, AgreedCallsAreCountedOverAllClasses) {
  StreamTuner tuner(2);
  trials(tuner);
  tuner.decide(kClass, times({100, 50}), tuner.calls() + 3);
  tuner.next(2 * kClass, kCall);
  tuner.next(2 * kClass, kCall);
  EXPECT_EQ(tuner.next(kClass, kCall).index, 1u);
}

TEST(StreamTuner, APlanThatIsHardlyFasterLosesAgainstTheWhole) {
  StreamTuner tuner(2);
  trials(tuner);
  tuner.decide(kClass, times({100, 97}), tuner.calls() + 1);
  StreamTuner::Choice route = tuner.next(kClass, kCall);
  EXPECT_TRUE(route.settled);
  EXPECT_EQ(route.index, 0u);
}

TEST(StreamTuner, ANewSubjectMakesTheOldTriesVoid) {
  StreamTuner tuner(2);
  for (int i = 0; i < 4; ++i) tuner.next(kClass, kCall);
  std::optional<std::size_t> first;
  for (int i = 0; i < 100 && !first; ++i) first = tuner.next(kClass, kCall + 1).attempt;
  EXPECT_EQ(first, 0u) << "its tries begin anew";
}

}  // namespace ddl
