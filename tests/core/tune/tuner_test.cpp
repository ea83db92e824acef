#include "core/tune/tuner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "core/tune/trial_budget.hpp"

namespace ddl {
namespace {

using What = Trial::What;

// Makes calls until the tuner has settled; what a try takes is given by the function.
std::vector<Trial> settle(Tuner& tuner, const std::function<Nanoseconds(Trial)>& takes, int most = 200) {
  std::vector<Trial> trials;
  while (!tuner.settled() && most-- > 0) {
    trials.push_back(tuner.next(7));
    tuner.record(takes(trials.back()));
    if (tuner.must_agree()) tuner.agreed();
  }
  EXPECT_TRUE(tuner.settled());
  return trials;
}

std::int64_t count(const std::vector<Trial>& trials, What what) {
  return std::count_if(trials.begin(), trials.end(), [&](const Trial& one) { return one.what == what; });
}

// What the ranks do by an all-reduce.
void agree(std::vector<Tuner>& ranks) {
  std::vector<std::int64_t> agreed(ranks[0].times().begin(), ranks[0].times().end());
  for (Tuner& tuner : ranks)
    for (std::size_t i = 0; i < agreed.size(); ++i) agreed[i] = std::max(agreed[i], tuner.times()[i]);
  for (Tuner& tuner : ranks) {
    std::copy(agreed.begin(), agreed.end(), tuner.times().begin());
    tuner.agreed();
  }
}

}  // namespace

TEST(Tuner, TheFastestOfOurWaysWins) {
  Tuner tuner({3, 2, false});
  std::vector<Trial> trials = settle(tuner, [](Trial t) { return t.index == 2 ? 50 : 100; });
  EXPECT_EQ(tuner.best(), 2);
  EXPECT_EQ(tuner.best_time(), 50);
  EXPECT_FALSE(tuner.original_wins());
  EXPECT_EQ(trials.size(), 1u + 3 * 3)
      << "a first call, then each way once for nothing and twice for its time";
}

TEST(Tuner, AWayThatLetsOneRankGoEarlyIsNotPreferred) {
  // One after the other the ranks leave the second way early; the last one leaves later than the first way's.
  constexpr int kRanks = 3;
  std::vector<Tuner> ranks(kRanks, Tuner({2, 3, false}));
  for (int call = 0; !ranks[0].settled(); ++call) {
    ASSERT_LT(call, 100);
    for (int rank = 0; rank < kRanks; ++rank) {
      Tuner& tuner = ranks[static_cast<std::size_t>(rank)];
      bool second = tuner.next(7).index == 1;
      tuner.record(!second ? 100 : rank == call % kRanks ? 10 : 130);
    }
    if (ranks[0].must_agree()) agree(ranks);
  }
  for (const Tuner& tuner : ranks) {
    EXPECT_EQ(tuner.best(), 0);
    EXPECT_EQ(tuner.best_time(), 100);
  }
}

// A call whose ranks happened to come together, or one that something else has held up, decides nothing.
TEST(Tuner, OneLuckyOrUnluckyTimeOfAWayDecidesNothing) {
  for (Nanoseconds odd : {1, 10'000})
    for (int odd_round : {0, 1, 2}) {
      int calls[2] = {-1, -1};  // the first does not count
      Tuner tuner({2, 3, false});
      settle(tuner, [&](Trial t) {
        if (t.what != What::candidate) return 500;
        int round = calls[t.index]++;
        int usual = t.index == 0 ? 100 : odd == 1 ? 200 : 50;
        return static_cast<int>(t.index == 1 && round == odd_round ? odd : usual);
      });
      EXPECT_EQ(tuner.best(), odd == 1 ? 0 : 1) << "round " << odd_round << " took " << odd;
      EXPECT_EQ(tuner.best_time(), odd == 1 ? 100 : 50);
    }
}

TEST(Tuner, TheFirstCallOfAWayDoesNotCount) {
  int first = 0;
  Tuner tuner({2, 1, false});
  settle(tuner,
         [&](Trial t) { return t.what == What::candidate && t.index == 1 ? (first++ == 0 ? 1 : 200) : 100; });
  EXPECT_EQ(tuner.best(), 0);
}

// As when a program begins: all that was measured first would lose.
TEST(Tuner, WhatMakesAllCallsSlowForAWhileDecidesNothing) {
  for (int slow : {5, 9, 17, 40}) {
    int calls = 0;
    Tuner tuner({2, 9, false});
    settle(tuner, [&](Trial t) { return (t.index == 0 ? 100 : 110) * (calls++ < slow ? 3 : 1); });
    EXPECT_EQ(tuner.best(), 0) << slow << " slow calls";
  }
  Tuner tuner({2, 9, false});
  std::vector<int> made;
  for (const Trial& one : settle(tuner, [](Trial) { return 100; }))
    if (one.what == What::candidate) made.push_back(one.index);
  made.erase(std::unique(made.begin(), made.end()), made.end());
  EXPECT_EQ(made, (std::vector{0, 1, 0, 1, 0, 1})) << "they take turns";
}

TEST(Tuner, ALittleFasterIsNoise) {
  Tuner tuner({2, 3, true});
  settle(tuner, [](Trial t) { return t.index == 1 || t.what == What::original ? 97 : 100; });
  EXPECT_EQ(tuner.best(), 0);
  EXPECT_FALSE(tuner.original_wins());
}

TEST(Tuner, TheOriginalIsTriedAfterOurWaysAndMayWin) {
  Tuner tuner({2, 2, true});
  std::vector<Trial> trials = settle(tuner, [](Trial t) { return t.what == What::original ? 10 : 100; });
  EXPECT_TRUE(tuner.original_wins());
  EXPECT_EQ(count(trials, What::original), 3);
  auto first =
      std::find_if(trials.begin(), trials.end(), [](const Trial& t) { return t.what == What::original; });
  EXPECT_EQ(first - trials.begin(), 1 + 2 * 3 + 3) << "behind our ways and the best of them once more";
}

TEST(Tuner, AThriftyOneLeavesTheFirstTwentyCallsAlone) {
  Tuner tuner({2, 1, true, 0.05, true});
  for (int call = 1; call <= 20; ++call) {
    EXPECT_EQ(tuner.next(7).what, What::best) << call;
    EXPECT_FALSE(tuner.asks());
    tuner.record(call == 5 ? 30 : 40);
  }
  EXPECT_EQ(tuner.next(7).what, What::best);
  ASSERT_TRUE(tuner.asks());
  EXPECT_EQ(tuner.usual(), 30);
  EXPECT_EQ(tuner.cost(30, 2), 4 * 30 + 5 * 2)
      << "two ways, each once for nothing and once for its time, a meeting before each, and one in the end";
  tuner.answer(true);
  tuner.record(99);
  EXPECT_EQ(tuner.next(7).what, What::candidate);
}

TEST(Tuner, AThriftyOneAsksBeforeEachPhaseAndLessAndLessOften) {
  Tuner tuner({2, 1, true, 0.05, true});
  std::vector<int> asked;
  int original = 0;
  for (int call = 1; !tuner.settled(); ++call) {
    ASSERT_LT(call, 1000);
    original += tuner.next(7).what == What::original;
    if (tuner.asks()) {
      asked.push_back(call);
      if (asked.size() == 3) {
        EXPECT_EQ(tuner.cost(10, 0), (2 + 3 * 2) * 10) << "the original is taken to be dear";
      }
      tuner.answer(asked.size() % 2 == 0);
    }
    tuner.record(10);
    if (tuner.must_agree()) tuner.agreed();
  }
  EXPECT_EQ(asked, (std::vector<int>{21, 42, 47, 94}));
  EXPECT_EQ(original, 2);
}

namespace {

// Makes calls until a thrifty tuner has settled: tries take what `tried` says of a way, calls that are not
// met what `used` says. The original comes last.
void settle_in_use(Tuner& tuner, const std::vector<Nanoseconds>& tried,
                   const std::vector<Nanoseconds>& used) {
  for (int call = 0; call < 1000 && !tuner.settled(); ++call) {
    Trial made = tuner.next(7);
    if (tuner.asks()) {
      tuner.answer(true);
      made = tuner.next(7);
    }
    auto route = static_cast<std::size_t>(made.what == What::best ? tuner.best() : made.index);
    if (made.what == What::original) route = tried.size() - 1;
    tuner.record(made.what == What::best || !made.meets ? used[route] : tried[route]);
    if (tuner.must_agree()) tuner.agreed();
  }
  EXPECT_TRUE(tuner.settled());
}

}  // namespace

// What a try promises, the network resting before each, is kept or not by calls that follow each other.
TEST(Tuner, AWinnerMustMakeTheProgramsOwnCallsShorter) {
  for (bool is_kept : {true, false}) {
    Tuner ours({2, 3, false, 0.05, true}), original({2, 3, true, 0.05, true});
    settle_in_use(ours, {100, 70, 500}, {100, is_kept ? 99 : 101, 500});
    EXPECT_EQ(ours.best(), is_kept ? 1 : 0);
    EXPECT_EQ(ours.best_time(), is_kept ? 99 : 100);
    settle_in_use(original, {100, 100, 70}, {100, 100, is_kept ? 99 : 101});
    EXPECT_EQ(original.original_wins(), is_kept);
    EXPECT_EQ(original.best(), 0);
  }
}

// The machine, its caches and the program get faster in a program's first calls, whatever makes these.
TEST(Tuner, AWinnerIsNotComparedWithTheFirstCallsAlone) {
  Tuner tuner({2, 3, false, 0.05, true});
  for (int call = 0; call < 1000 && !tuner.settled(); ++call) {
    Trial made = tuner.next(7);
    if (tuner.asks()) {
      tuner.answer(true);
      made = tuner.next(7);
    }
    const Nanoseconds slower = std::max(0, 30 - call);
    tuner.record((made.what == What::candidate && made.index == 1 ? 110 : 100) + 3 * slower);
    if (tuner.must_agree()) tuner.agreed();
  }
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(tuner.best(), 0);
  EXPECT_EQ(tuner.best_time(), 100);
}

TEST(Tuner, OthersHaveAChanceWhereTheProgramsCallsTakeLongerThanTries) {
  for (Nanoseconds last : {80, 96}) {
    Tuner tuner({4, 3, false, 0.05, true});
    settle_in_use(tuner, {70, 60, 90, 73, 500}, {100, 120, 50, last, 500});
    EXPECT_EQ(tuner.best(), last == 80 ? 3 : 0)
        << "1 wins tries only, 2 is too slow there to be used, 3 has to be clearly better";
  }
}

// What is clearly better there than what makes the calls, though a try would not show it.
TEST(Tuner, ALaterLookComparesInUseAlone) {
  constexpr std::uint64_t kRest = 50;
  for (Nanoseconds other : {80, 96}) {
    Tuner tuner({3, 3, false, 0.05, true, 2, kRest});
    int left_alone = 0;
    bool has_asked = false;
    for (int call = 0; call < 1000 && !tuner.settled(); ++call) {
      left_alone += tuner.leaves_alone(7);
      Trial made = tuner.next(7);
      if (tuner.asks()) {
        has_asked = true;
        tuner.answer(true);
        made = tuner.next(7);
      }
      EXPECT_TRUE(made.what == What::best || !made.meets) << call;
      tuner.record(made.what == What::best || made.index == 0 ? 100 : made.index == 1 ? 150 : other);
      if (tuner.must_agree()) tuner.agreed();
    }
    EXPECT_TRUE(tuner.settled());
    EXPECT_GE(left_alone, static_cast<int>(kRest));
    EXPECT_TRUE(has_asked);
    EXPECT_EQ(tuner.best(), other == 80 ? 2 : 0);
  }
}

TEST(Tuner, ALaterLookThatIsRefusedFollowsTheProgramToOtherCalls) {
  Tuner tuner({2, 3, false, 0.05, true, 2, 1});
  int refused = 0;
  for (int call = 0; call < 2000 && !tuner.settled(); ++call) {
    const Fingerprint subject = call < 100 ? 7 : 8;
    Trial made = tuner.next(subject);
    if (tuner.asks()) {
      tuner.answer(subject == 8);
      refused += subject == 7;
      if (subject == 8) made = tuner.next(subject);
    }
    tuner.record(made.what == What::candidate && made.index == 1 ? 50 : 100);
    if (tuner.must_agree()) tuner.agreed();
  }
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(tuner.best(), 1);
}

// Whatever each rank measures, however often trying is refused or the program turns to other calls, and
// where some make calls without asking and tell of no more than is wanted.
TEST(Tuner, AllRanksTryAlike) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
    const TunerPlan plan{1 + below(4), 1 + below(3), below(2) == 0, 0.05, true};
    std::vector<Tuner> ranks(3, Tuner(plan));
    Fingerprint subject = 7;
    for (int call = 0; call < 400; ++call) {
      if (below(100) == 0) ++subject;
      const Fingerprint made_now = below(10) == 0 ? subject + 1000 : subject;
      const bool may_try = below(3) != 0;
      std::vector<Trial> made;
      const bool is_left_alone = ranks[0].leaves_alone(made_now);
      for (Tuner& tuner : ranks) {
        made.push_back(tuner.next(made_now));
        ASSERT_TRUE(!is_left_alone || (made.back().what == What::best && !tuner.asks()));
        ASSERT_EQ(tuner.asks(), ranks[0].asks());
        ASSERT_EQ(made.back().what, made[0].what) << "seed " << seed << ", call " << call;
        ASSERT_EQ(made.back().index, made[0].index);
        ASSERT_EQ(made.back().meets, made[0].meets);
      }
      if (ranks[0].asks())
        for (Tuner& tuner : ranks) tuner.answer(may_try);
      for (Tuner& tuner : ranks)
        if (&tuner != &ranks[0] || !is_left_alone || tuner.wants_time()) tuner.record(50 + below(100));
      ASSERT_EQ(ranks[1].must_agree(), ranks[0].must_agree());
      if (ranks[0].must_agree()) agree(ranks);
      for (Tuner& tuner : ranks) {
        ASSERT_EQ(tuner.best(), ranks[0].best()) << "seed " << seed << ", call " << call;
        ASSERT_EQ(tuner.original_wins(), ranks[0].original_wins());
        ASSERT_EQ(tuner.settled(), ranks[0].settled());
      }
    }
  }
}

TEST(Tuner, AWinnerStaysWhenTheProgramTurnsToOtherCalls) {
  Tuner tuner({2, 1, false, 0.05, true});
  for (int call = 0; call < 10'000 && !tuner.settled(); ++call) {
    Trial made = tuner.next(tuner.best() == 0 ? 7 : 8);
    if (tuner.asks()) tuner.answer(true);
    tuner.record(made.what == What::candidate && made.index == 1 ? 50 : 100);
    if (tuner.must_agree()) tuner.agreed();
  }
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(tuner.best(), 1);
}

TEST(TrialBudget, ATwentiethOfTheTimeGoesIntoTrials) {
  EXPECT_TRUE(TrialBudget::allows(5, 0, 100));
  EXPECT_FALSE(TrialBudget::allows(6, 0, 100));
  EXPECT_FALSE(TrialBudget::allows(1, 5, 100));
  EXPECT_TRUE(TrialBudget::allows(1, 5, 120));
  TrialBudget budget(now());
  EXPECT_EQ(budget.meeting(2), 0);
  budget.note_meeting(2, 500);
  budget.note_meeting(2, 900'000);  // somebody came late
  budget.note_meeting(4, 7000);
  EXPECT_EQ(budget.meeting(2), 500);
  EXPECT_EQ(budget.meeting(4), 7000);
  budget.spend(3);
  budget.spend(4);
  EXPECT_EQ(budget.spent(), 7);
  EXPECT_GE(budget.elapsed(), 0);
}

TEST(Tuner, OtherCallsInBetweenAreLeftAloneUntilTheSubjectIsForgotten) {
  Tuner tuner({2, 1, false});
  tuner.next(7);
  tuner.record(1);
  EXPECT_EQ(tuner.next(7).what, What::candidate);
  tuner.record(1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(tuner.next(8).what, What::best);
    tuner.record(1);
  }
  EXPECT_EQ(tuner.next(7).what, What::candidate);
  tuner.record(1);
  for (int i = 0; i < 17; ++i) {
    tuner.next(9);
    tuner.record(1);
  }
  EXPECT_EQ(tuner.next(9).what, What::candidate) << "the new subject";
}

TEST(Tuner, DozensOfSizesThatTakeTurnsSettleAllTheSame) {
  Tuner tuner({2, 2, true});
  int calls = 0;
  for (; !tuner.settled() && calls < 20'000; ++calls) {
    Trial t = tuner.next(static_cast<Fingerprint>(calls % 100 + 1));
    tuner.record(t.index == 1 ? 50 : 100);
    if (tuner.must_agree()) tuner.agreed();
  }
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(tuner.best(), 1);
}

}  // namespace ddl
