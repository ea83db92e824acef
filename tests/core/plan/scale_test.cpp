// Plans for machines far larger than this one: whole where that takes seconds, on sampled ranks beyond.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

#include "core/plan/check.hpp"
#include "core/plan/planner.hpp"
#include "tests/core/plan/plans.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {
namespace {

using test::blocks;
using test::choice_for;
using test::plans_of;

PlanChoice choice_of(std::vector<Algorithm> algorithm, std::vector<std::uint32_t> share = {1}) {
  PlanChoice choice;
  choice.algorithm = std::move(algorithm);
  choice.share = std::move(share);
  choice.segment = Bytes{64} << 20;
  return choice;
}

constexpr auto kDirect = Algorithm::direct, kRing = Algorithm::ring, kHalving = Algorithm::halving,
               kDoubling = Algorithm::doubling;

// A million ranks: 8 in a host, 5 hosts in a rack, 25 racks in an aisle, 1000 aisles.
const std::vector<Rank> kMillion = {8, 5, 25, 1000};

// Follows single elements through the plans of a huge regular grid without planning for all its ranks.
//
// A rank's share weighs the product of a random number per coordinate, so that the weight of all shares of a
// subgrid is a product of sums. What a rank holds before it starts on dimension d must then be known in
// closed form; it is taken from there, but for some ranks it is followed through the plans and compared.
class Tracer {
 public:
  Tracer(const Grid& grid, const PlanChoice& choice, Elements count, Elements element)
      : grid_(grid), choice_(choice), count_(count), element_(element) {
    for (int d = 0; d < grid.dimensions(); ++d) {
      weight_.emplace_back();
      sum_.push_back(0);
      for (Rank i = 0; i < grid.fanout(d); ++i) {
        weight_.back().push_back(random_());
        sum_.back() += weight_.back().back();
      }
    }
  }

  /// The weight of all shares that the rank holds at the end.
  std::uint64_t result(Rank rank) { return held(rank, steps_of(rank).size()); }
  std::uint64_t everybody() const { return base(0, grid_.dimensions()); }
  int followed() const { return followed_; }
  std::string problem;

 private:
  struct Touch {  // a step on the element
    Verb verb;
    Tag tag;
    std::vector<Rank> peers;
  };

  const std::vector<Touch>& steps_of(Rank rank) {
    auto [at, fresh] = steps_.try_emplace(rank);
    if (!fresh) return at->second;
    Plan plan = make_plan(grid_, rank, choice_);
    SliceTable table;
    table.compute(plan, count_, 4);
    for (const Step& step : plan.steps) {
      Range range = table[step.slice];
      if (element_ < range.first || element_ >= range.first + range.count) continue;
      auto first = plan.peers.begin() + step.peer;
      at->second.push_back({step.verb, step.tag, {first, first + step.peers}});
    }
    return at->second;
  }

  Rank coordinate(Rank rank, int d) const {
    return rank / grid_.dimension(d).stride % grid_.dimension(d).extent;
  }

  int dimension_of(Rank rank, const Touch& touch) const {
    int d = 0;
    while (coordinate(rank, d) == coordinate(touch.peers[0], d)) ++d;
    return d;
  }

  // All shares of the subgrid below dimension d that the rank is in.
  std::uint64_t base(Rank rank, int d) const {
    std::uint64_t weight = 1;
    for (int i = 0; i < grid_.dimensions(); ++i)
      weight *= i < d ? sum_[static_cast<std::size_t>(i)]
                      : weight_[static_cast<std::size_t>(i)][static_cast<std::size_t>(coordinate(rank, i))];
    return weight;
  }

  // What the rank holds after the first `end` of its steps on the element. Where the next step is the first
  // one on a dimension, all below it is done and the closed form holds.
  std::uint64_t held(Rank rank, std::size_t end) {
    if (auto known = held_.find({rank, end}); known != held_.end()) return known->second;
    const std::vector<Touch>& steps = steps_of(rank);
    int last = -1;  // the outermost dimension it has begun
    std::size_t begin = 0;
    for (std::size_t i = 0; i < end; ++i)
      if (int d = dimension_of(rank, steps[i]); d > last) last = d, begin = i;
    int next = end < steps.size() ? dimension_of(rank, steps[end]) : -1;
    if (next <= last) return held_[{rank, end}] = walked(rank, begin, end);
    if (last >= 0 && budget_[next] > 0) {
      --budget_[next];
      ++followed_;
      if (walked(rank, begin, end) != base(rank, next))
        problem = fmt::format("rank {} before dimension {}", rank, next);
    }
    return held_[{rank, end}] = base(rank, next);
  }

  std::uint64_t walked(Rank rank, std::size_t begin, std::size_t end) {
    const std::vector<Touch>& steps = steps_of(rank);
    std::uint64_t weight = held(rank, begin);
    for (std::size_t i = begin; i < end; ++i) {
      if (steps[i].verb == Verb::send) continue;
      if (steps[i].verb == Verb::copy) weight = 0;
      for (Rank peer : steps[i].peers) weight += sent(peer, steps[i].tag, rank);
    }
    return weight;
  }

  std::uint64_t sent(Rank from, Tag tag, Rank to) {
    const std::vector<Touch>& steps = steps_of(from);
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i].verb == Verb::send && steps[i].tag == tag &&
          std::count(steps[i].peers.begin(), steps[i].peers.end(), to))
        return held(from, i);
    problem = fmt::format("rank {} waits for a message that rank {} never sends", to, from);
    return 0;
  }

  const Grid& grid_;
  const PlanChoice& choice_;
  Elements count_, element_;
  std::mt19937_64 random_{7};
  std::vector<std::vector<std::uint64_t>> weight_;
  std::vector<std::uint64_t> sum_;
  std::map<Rank, std::vector<Touch>> steps_;
  std::map<std::pair<Rank, std::size_t>, std::uint64_t> held_;
  std::map<int, int> budget_ = {{1, 40}, {2, 20}, {3, 10}};  // how many ranks to follow down, per dimension
  int followed_ = 0;
};

// What one rank sends must be expected by its receivers with the same slice, and the other way around.
void expect_to_fit(const Grid& grid, const PlanChoice& choice, Rank rank, std::mt19937& random) {
  constexpr Elements kCount = 3'000'001;
  Plan mine = make_plan(grid, rank, choice);
  SliceTable my_table;
  my_table.compute(mine, kCount, 4);
  for (int i = 0; i < 12; ++i) {
    const Step& step = mine.steps[random() % mine.steps.size()];
    Rank peer = mine.peers[step.peer + random() % step.peers];
    Plan theirs = make_plan(grid, peer, choice);
    SliceTable their_table;
    their_table.compute(theirs, kCount, 4);
    auto matches = [&](const Step& other) {
      auto first = theirs.peers.begin() + other.peer;
      return other.tag == step.tag && (other.verb == Verb::send) != (step.verb == Verb::send) &&
             std::count(first, first + other.peers, rank) == 1 &&
             their_table[other.slice] == my_table[step.slice];
    };
    EXPECT_EQ(std::count_if(theirs.steps.begin(), theirs.steps.end(), matches), 1) << rank << " " << peer;
    if (step.verb == Verb::send) {
      EXPECT_GE(theirs.find_expected(step.tag, rank), 0);
    }
  }
}

}  // namespace

TEST(Scale, PublishedMachinesAreCompleteToTheLastRank) {
  auto complete = [](const std::vector<Rank>& extents, const PlanChoice& choice, Elements count) {
    Grid grid = blocks(extents, 1);
    CheckResult result = check_plans(plans_of(grid, choice), count, 4);
    EXPECT_EQ(result.problem, "") << describe(grid, choice);
  };
  for (Elements count : {5000, 863, 1}) {
    complete({6, 18, 4, 2}, choice_of({kDirect, kRing, kRing, kRing}), count);
    complete({6, 18, 4, 2}, choice_of({kDirect, kHalving, kDirect, kDoubling}, {2, 1}), count);
    complete({4, 64}, choice_of({kDirect, kRing}, {1, 1}), count);
    complete({4, 64}, choice_of({kHalving, kHalving}), count);
    complete({4, 64}, choice_of({Algorithm::funnel, kDoubling}), count);
    if (test::kSanitized) break;
  }
  complete({8, 16, 8, 8}, choice_of({kDirect, kRing, kHalving, kRing}), 1100);
}

TEST(Scale, TheStepsOfBlueConnectAreTheSumOfItsDimensions) {
  auto steps = [](const std::vector<Rank>& extents) {
    Grid grid = blocks(extents, 1);
    Plan plan = make_plan(grid, 1, choice_for(grid, kRing, kRing));
    return std::count_if(plan.steps.begin(), plan.steps.end(),
                         [](const Step& step) { return step.verb == Verb::reduce; });
  };
  EXPECT_EQ(steps({4, 48}), 3 + 47);
  EXPECT_EQ(steps({6, 18, 4, 2}), 5 + 17 + 3 + 1);
}

TEST(Scale, APlanForAMillionRanksTakesKilobytes) {
  Grid grid = blocks(kMillion, 1);
  for (Algorithm outer : {kRing, kHalving}) {
    PlanChoice choice = choice_of({kDirect, kRing, kRing, outer});
    auto begin = std::chrono::steady_clock::now();
    constexpr int kPlans = 20;
    Bytes bytes = 0;
    for (Rank rank = 0; rank < kPlans; ++rank) bytes = make_plan(grid, rank * 49'999, choice).bytes();
    double took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%s: %.2f ms, plan %.1f KiB, grid %.1f KiB\n", describe(grid, choice).c_str(), took / kPlans,
                static_cast<double>(bytes) / 1024, static_cast<double>(grid.bytes()) / 1024);
    EXPECT_LT(bytes, Bytes{1} << 20);
  }
}

TEST(Scale, AMillionRanksExpectWhatIsSentToThem) {
  Grid grid = blocks(kMillion, 1);
  std::mt19937 random(5);
  for (const PlanChoice& choice :
       {choice_of({kDirect, kRing, kRing, kRing}, {2, 1}), choice_of({kDirect, kHalving, kRing, kHalving}),
        choice_of({kDirect, kDirect, Algorithm::funnel, kDoubling})})
    for (int i = 0; i < 8; ++i)
      expect_to_fit(grid, choice, static_cast<Rank>(random() % static_cast<unsigned>(grid.ranks())), random);
}

TEST(Scale, SampledElementsHoldAMillionSharesExactlyOnce) {
  Grid grid = blocks(kMillion, 1);
  constexpr Elements kCount = 2'000'003;
  for (const PlanChoice& choice :
       {choice_of({kDirect, kRing, kRing, kRing}, {2, 1}), choice_of({kDirect, kHalving, kDirect, kHalving}),
        choice_of({Algorithm::funnel, kRing, kHalving, kDoubling})}) {
    Tracer tracer(grid, choice, kCount, 1'234'567);
    for (Rank rank : {0, 777'777}) EXPECT_EQ(tracer.result(rank), tracer.everybody());
    EXPECT_EQ(tracer.problem, "");
    EXPECT_GT(tracer.followed(), 20);
    if (test::kSanitized) break;
  }
}

}  // namespace ddl
