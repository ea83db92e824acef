#include "core/tune/rail_watch.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace ddl {
namespace {

using Times = std::vector<std::int64_t>;

// Calls until the next look is over; each round of it takes what is given, the last one again and again.
Times look(RailWatch& watch, const std::vector<Times>& rounds, int* calls = nullptr) {
  std::size_t round = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (calls) ++*calls;
    if (!watch.looks()) continue;
    watch.record(rounds[std::min(round++, rounds.size() - 1)], RailWatch::kUnit);
    if (watch.must_agree()) return watch.agreed();
  }
  ADD_FAILURE() << "it never looks";
  return {};
}

}  // namespace

TEST(RailWatch, RailsDifferWhenAllRoundsButOneSaySoAndThenTheShortestTimesCount) {
  auto first_look = [](const std::vector<Times>& rounds) {
    RailWatch watch(2, RailsAre::unknown);
    return look(watch, rounds);
  };
  EXPECT_EQ(first_look({{100, 900}, {90, 200}, {150, 300}, {200, 400}}), (Times{90, 200}));
  EXPECT_EQ(first_look({{100, 900}, {90, 130}, {150, 300}, {130, 130}}), (Times{90, 130}));
  EXPECT_EQ(first_look({{100, 900}, {90, 100}, {300, 150}, {200, 400}}), (Times{100, 100}))
      << "all disturbed";
  EXPECT_EQ(first_look({{100, 900}, {90, 100}, {150, 300}, {300, 300}}), (Times{100, 100}));
}

TEST(RailWatch, TheFirstCallIsLeftOutAndTheNextLookIsLater) {
  RailWatch watch(2, RailsAre::unknown);
  EXPECT_FALSE(watch.looks());
  int first = 1, second = 0;
  look(watch, {{100, 100}}, &first);
  EXPECT_EQ(first, 5);
  look(watch, {{100, 100}}, &second);
  EXPECT_GT(second, 2 * first);
}

TEST(RailWatch, WhatWasTakenForEqualIsCorrectedLater) {
  RailWatch watch(2, RailsAre::unknown);
  EXPECT_EQ(look(watch, {{500, 510}}), (Times{510, 510})) << "measured beside other work";
  EXPECT_EQ(look(watch, {{100, 400}}), (Times{100, 400}));
  EXPECT_EQ(look(watch, {{160, 165}}), Times{}) << "now they finish together";
}

TEST(RailWatch, CallsOfAnySizeTellTheSame) {
  RailWatch watch(2, RailsAre::unknown);
  std::vector<std::int64_t> times;
  for (double bytes = RailWatch::kUnit; times.empty();) {
    if (!watch.looks()) continue;
    const auto took = static_cast<Nanoseconds>(bytes * 1e-3);
    watch.record(Times{took, 4 * took}, bytes);
    bytes *= 2;
    if (watch.must_agree()) times = watch.agreed();
  }
  EXPECT_EQ(times, (Times{1048, 4192}));
}

// The root of a broadcast does not.
TEST(RailWatch, WhoHearsNothingSaysNothing) {
  RailWatch watch(2, RailsAre::unknown);
  EXPECT_EQ(look(watch, {{100, 0}}), Times{});
  EXPECT_EQ(look(watch, {{}}), Times{});
  EXPECT_EQ(look(watch, {{100, 110}}), (Times{110, 110})) << "still unknown before";
}

TEST(RailWatch, WhatAnEarlierJobLearnedIsLookedAtToo) {
  RailWatch watch(2, RailsAre::known);
  int calls = 0;
  EXPECT_EQ(look(watch, {{100, 110}}, &calls), Times{});
  EXPECT_GT(calls, 8);
  EXPECT_EQ(look(watch, {{100, 400}}), (Times{100, 400}));
}

}  // namespace ddl
