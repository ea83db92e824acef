#include "core/tune/rail_watch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ddl {
namespace {

using Times = std::vector<std::int64_t>;
using Rounds = std::vector<Times>;
using Shares = std::vector<double>;

const Shares kHalves{0.5, 0.5};

// Calls until the next look is over; each round of it takes what is given, the last one again and again.
std::optional<RailRates> look(RailWatch& watch, const Rounds& rounds, const Shares& share = kHalves,
                              int* calls = nullptr) {
  std::size_t round = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (calls) ++*calls;
    if (!watch.looks()) continue;
    watch.record(rounds[std::min(round++, rounds.size() - 1)], RailWatch::kUnit);
    if (watch.must_agree()) return watch.agreed(share);
  }
  ADD_FAILURE() << "it never looks";
  return {};
}

// Of half a unit, in so many nanoseconds.
double rate(double time) { return RailWatch::kUnit / 2 / (1e-9 * time); }

void expect_rates(const std::optional<RailRates>& rates, const RailRates& expected) {
  ASSERT_TRUE(rates);
  ASSERT_EQ(rates->size(), expected.size());
  for (std::size_t rail = 0; rail < expected.size(); ++rail)
    EXPECT_NEAR((*rates)[rail] / expected[rail], 1, 1e-9) << "rail " << rail;
}

}  // namespace

TEST(RailWatch, RailsDifferWhenAllRoundsButOneSaySoAndThenTheShortestTimesCount) {
  auto first_look = [](const Rounds& rounds) {
    RailWatch watch(2, {});
    return look(watch, rounds);
  };
  expect_rates(first_look({{100, 900}, {90, 200}, {150, 300}, {200, 400}}), {rate(90), rate(200)});
  expect_rates(first_look({{100, 900}, {90, 130}, {150, 300}, {130, 130}}), {rate(90), rate(130)});
  const RailRates alike{rate(100), rate(100)};
  expect_rates(first_look({{100, 900}, {90, 100}, {300, 150}, {200, 400}}), alike);
  expect_rates(first_look({{100, 900}, {90, 100}, {150, 300}, {300, 300}}), alike);
}

TEST(RailWatch, TheFirstCallIsLeftOutAndTheNextLookIsLater) {
  RailWatch watch(2, {});
  EXPECT_FALSE(watch.looks());
  int first = 1, second = 0;
  look(watch, {{100, 100}}, kHalves, &first);
  EXPECT_EQ(first, 5);
  look(watch, {{100, 100}}, kHalves, &second);
  EXPECT_GT(second, 2 * first);
}

TEST(RailWatch, WhatWasTakenForEqualIsCorrectedLater) {
  RailWatch watch(2, {});
  expect_rates(look(watch, {{500, 510}}), {rate(510), rate(510)});  // measured beside other work
  const RailRates differ{rate(100), rate(400)};
  expect_rates(look(watch, {{100, 400}}), differ);
  EXPECT_FALSE(look(watch, {{160, 165}}, {0.8, 0.2})) << "now they finish together";
}

namespace {

// One more look of all ranks.
std::optional<RailRates> look_together(std::vector<RailWatch>& ranks, const Rounds& of_rank) {
  while (!ranks[0].must_agree()) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (ranks[rank].looks()) ranks[rank].record(of_rank[rank], RailWatch::kUnit);
  }
  Times times(ranks[0].times().begin(), ranks[0].times().end()), leans(ranks[0].leans().size());
  for (RailWatch& rank : ranks) {
    for (std::size_t i = 0; i < times.size(); ++i) times[i] = std::max(times[i], rank.times()[i]);
    for (std::size_t i = 0; i < leans.size(); ++i) leans[i] += rank.leans()[i];
  }
  std::optional<RailRates> result;
  for (RailWatch& rank : ranks) {
    std::copy(times.begin(), times.end(), rank.times().begin());
    std::copy(leans.begin(), leans.end(), rank.leans().begin());
    result = rank.agreed(kHalves);
  }
  return result;
}

std::optional<RailRates> first_look_together(const Rounds& of_rank) {
  std::vector<RailWatch> ranks(of_rank.size(), RailWatch(2, {}));
  return look_together(ranks, of_rank);
}

}  // namespace

// Two of three ranks are alike to both, one waited for a processor.
TEST(RailWatch, ARailIsSlowIfTheRanksSeeItSoOnTheWhole) {
  expect_rates(first_look_together({{100, 100}, {90, 90}, {100, 160}}), {rate(160), rate(160)});
  expect_rates(first_look_together({{90, 140}, {60, 100}, {100, 160}}), {rate(100), rate(160)});
  expect_rates(first_look_together({{90, 0}, {0, 100}, {100, 160}}), {rate(100), rate(160)});
  expect_rates(first_look_together({{90, 0}, {0, 160}}), {rate(90), rate(160)});  // no rank hears both
}

// Or one host's is, to whose ranks alone it seems so.
TEST(RailWatch, WhatOneRankSeesCountsWhenItLasts) {
  const Rounds one = {{100, 100}, {90, 90}, {100, 160}}, other = {{160, 100}, {90, 90}, {100, 100}},
               none = {{100, 100}, {90, 90}, {100, 100}};
  auto last_of = [](const std::vector<Rounds>& looks) {
    std::vector<RailWatch> ranks(3, RailWatch(2, {rate(120), rate(120)}));
    std::optional<RailRates> result;
    for (const Rounds& rounds : looks) result = look_together(ranks, rounds);
    return result;
  };
  EXPECT_FALSE(last_of({one, one}));
  expect_rates(last_of({one, one, one}), {rate(100), rate(160)});
  EXPECT_FALSE(last_of({one, one, other}));
  EXPECT_FALSE(last_of({one, one, none, one}));
  EXPECT_FALSE(last_of({one, one, one, one})) << "it begins anew";
}

TEST(RailWatch, WhatLooksDifferentWithOtherSharesIsBlended) {
  RailWatch watch(2, {});
  look(watch, {{100, 200}});  // that is 2 : 1
  const double all = RailWatch::kUnit;
  const RailRates seen{all * 2 / 3 / 150e-9, all / 3 / 100e-9};
  expect_rates(look(watch, {{150, 100}}, {2. / 3, 1. / 3}),
               {std::sqrt(rate(100) * seen[0]), std::sqrt(rate(200) * seen[1])});
}

TEST(RailWatch, CallsOfAnySizeTellTheSame) {
  RailWatch watch(2, {});
  std::optional<RailRates> rates;
  for (double bytes = RailWatch::kUnit; !rates;) {
    if (!watch.looks()) continue;
    const auto took = static_cast<Nanoseconds>(bytes * 1e-3);
    watch.record(Times{took, 4 * took}, bytes);
    bytes *= 2;
    if (watch.must_agree()) rates = watch.agreed(kHalves);
  }
  expect_rates(rates, {rate(1048), rate(4192)});
}

// The root of a broadcast does not.
TEST(RailWatch, WhoHearsNothingSaysNothing) {
  RailWatch watch(2, {});
  EXPECT_FALSE(look(watch, {{100, 0}}));
  EXPECT_FALSE(look(watch, {{}}));
  expect_rates(look(watch, {{100, 110}}), {rate(110), rate(110)});  // still unknown before
}

TEST(RailWatch, WhatAnEarlierJobLearnedIsLookedAtToo) {
  RailWatch watch(2, {rate(100), rate(100)});
  int calls = 0;
  EXPECT_FALSE(look(watch, {{100, 110}}, kHalves, &calls));
  EXPECT_GT(calls, 8);
  expect_rates(look(watch, {{100, 400}}), {rate(100), rate(400)});
}

}  // namespace ddl
