#include "core/plan/planner.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <numeric>

#include "core/base/error.hpp"
#include "core/plan/check.hpp"
#include "tests/core/plan/plans.hpp"
#include "tests/support/wire_elements.hpp"

namespace ddl {
namespace {

using test::blocks;
using test::choice_for;
using test::hosts_of;
using test::plans_of;
using test::round_robin;

const std::vector<std::vector<HostIndex>> kMachines = {
    hosts_of({1}),       hosts_of({2}),     hosts_of({3}),       hosts_of({5}),
    hosts_of({7}),       hosts_of({1, 1}),  hosts_of({2, 2}),    hosts_of({2, 2, 2}),
    hosts_of({2, 1, 3}), hosts_of({1, 4}),  hosts_of({3, 3, 1}), hosts_of({1, 1, 1, 1}),
    round_robin(4, 8),   round_robin(3, 7), {2, 0, 1, 0, 2, 2}};

constexpr Algorithm kAll[] = {Algorithm::direct,   Algorithm::ring,    Algorithm::exchange,
                              Algorithm::doubling, Algorithm::halving, Algorithm::funnel};

// "" when the plans are right for these counts, in place and from input to output.
std::string problem_of(const Grid& grid, const PlanChoice& choice,
                       const std::vector<Elements>& counts = {0, 1, 2, 3, 7, 64, 1000}) {
  std::vector<Plan> plans = plans_of(grid, choice);
  for (Elements count : counts)
    for (Buffers buffers : {Buffers::one, Buffers::two})
      if (std::string problem = check_plans(plans, count, 4, buffers).problem; !problem.empty())
        return fmt::format("{}, {} elements: {}", plans[0].name, count, problem);
  return {};
}

// Every algorithm at every dimension that `choice` leaves open, from `d` on.
void check_all_algorithms(const Grid& grid, PlanChoice choice, int d, const std::vector<Elements>& counts) {
  if (d == grid.dimensions()) {
    EXPECT_EQ(problem_of(grid, choice, counts), "");
    return;
  }
  bool last = true;
  for (int outer = d + 1; outer < grid.dimensions(); ++outer) last &= grid.fanout(outer) == 1;
  for (Algorithm algorithm : kAll) {
    if (is_final(algorithm) && !last) continue;
    choice.algorithm[static_cast<std::size_t>(d)] = algorithm;
    check_all_algorithms(grid, choice, d + 1, counts);
  }
}

void check_all_algorithms(const Grid& grid, std::vector<std::uint32_t> share = {1},
                          const std::vector<Elements>& counts = {0, 1, 2, 3, 7, 64, 1000}) {
  check_all_algorithms(grid, choice_for(grid, Algorithm::ring, Algorithm::ring, std::move(share)), 0, counts);
}

}  // namespace

TEST(Planner, PlansThatRoundBringTheSameAndOthersRoundNothing) {
  for (const auto& machine : kMachines) {
    Grid grid = Grid::from_hosts(machine);
    for (Algorithm first : kAll)
      for (Algorithm rest : kAll) {
        PlanChoice choice = choice_for(grid, first, rest, {1, 1});
        if (is_final(first) && grid.dimensions() > 1) continue;
        for (const Plan& plan : plans_of(grid, choice))
          for (const Step& step : plan.steps) ASSERT_FALSE(step.rounds);
        choice.wire = {DType::float32, WireType::bfloat16};
        ASSERT_EQ(problem_of(grid, choice, {3, 1000}), "") << describe(grid, choice);
        if (grid.ranks() == 1) continue;
        auto plans = plans_of(grid, choice);
        auto rounds = [](const Plan& plan) {
          return std::any_of(plan.steps.begin(), plan.steps.end(),
                             [](const Step& step) { return step.rounds; });
        };
        EXPECT_TRUE(std::any_of(plans.begin(), plans.end(), rounds)) << describe(grid, choice);
      }
  }
}

TEST(Planner, EveryAlgorithmIsCompleteForAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 12}) {
    check_all_algorithms(Grid::from_hosts(hosts_of({ranks})));
    check_all_algorithms(Grid::from_hosts(hosts_of(std::vector<int>(static_cast<std::size_t>(ranks), 1))));
  }
}

TEST(Planner, EveryPairOfAlgorithmsIsCompleteOnEveryMachine) {
  for (const auto& machine : kMachines) check_all_algorithms(Grid::from_hosts(machine));
}

TEST(Planner, EveryShareOfLanesIsComplete) {
  for (const auto& machine : {hosts_of({2, 2, 2}), hosts_of({2, 1, 3}), hosts_of({5}), round_robin(3, 7)})
    for (const std::vector<std::uint32_t>& share :
         {std::vector<std::uint32_t>{1, 1}, {1, 1, 1}, {2, 1}, {1, 0}, {0, 3, 1}, {5, 7, 2, 1}})
      check_all_algorithms(Grid::from_hosts(machine), share, {1, 7, 1000});
}

TEST(Planner, ThreeAndFourDimensionsAreCompleteInEveryMixture) {
  check_all_algorithms(blocks({2, 3, 2}, 1), {1}, {1, 100});
  check_all_algorithms(blocks({3, 2, 2, 2}, 2), {1}, {100});
  std::vector<HostIndex> hosts = hosts_of({3, 1, 2, 4, 1, 2});
  std::vector<std::int32_t> numa, rack;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    numa.push_back(hosts[r] * 2 + (r % 3 == 0));
    rack.push_back(hosts[r] < 4 ? 0 : 1);
  }
  Grid tree = Grid::from_levels(hosts, {{"numa", numa}, {"hosts", hosts}, {"racks", rack}});
  EXPECT_EQ(tree.dimensions(), 4);
  check_all_algorithms(tree, {1, 1}, {3, 100});
}

TEST(Planner, GroupsThatMixHostsUseBothFabrics) {
  for (const auto& hosts : {hosts_of({2, 2, 2, 2}), hosts_of({3, 1, 2, 2}), round_robin(4, 8)}) {
    Grid grid = Grid::from_dims(hosts, std::vector<Rank>{4, 2});
    check_all_algorithms(grid, {1, 1}, {1, 333});
  }
  Grid grid = Grid::from_dims(hosts_of({2, 2}), std::vector<Rank>{4});
  Plan plan = make_plan(grid, 0, choice_for(grid, Algorithm::exchange, Algorithm::ring));
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(plan.steps[0].fabric, Fabric::wire);
  EXPECT_EQ(plan.steps[0].peers, 2u);
  EXPECT_EQ(plan.steps[1].fabric, Fabric::local);
}

TEST(Planner, LanesMayReduceTheDimensionsInOrdersOfTheirOwn) {
  Grid grid = blocks({2, 3, 4}, 1);
  PlanChoice choice = choice_for(grid, Algorithm::direct, Algorithm::ring, {1, 1, 2});
  choice.order = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}};
  choice.rail = {0, 1, 0};
  EXPECT_EQ(problem_of(grid, choice), "");
  choice.algorithm = {Algorithm::halving, Algorithm::funnel, Algorithm::direct};
  EXPECT_EQ(problem_of(grid, choice), "");
}

TEST(Planner, TwoLanesCanShareARailInBothDirections) {
  Grid grid = Grid::from_hosts(hosts_of({1, 1, 1, 1}));
  PlanChoice choice = choice_for(grid, Algorithm::direct, Algorithm::ring, {1, 1});
  choice.rail = {0, 0};
  EXPECT_EQ(problem_of(grid, choice), "");
  Plan plan = make_plan(grid, 0, choice);
  SliceTable table;
  table.compute(plan, 4096, 4);
  EXPECT_EQ(test::wire_elements(plan, table, 0), 2u * 3 * 1024);
  std::vector<Elements> to(4);
  for (const Step& step : plan.steps)
    if (step.verb == Verb::send)
      to[static_cast<std::size_t>(plan.peers[step.peer])] += table[step.slice].count;
  EXPECT_EQ(to, (std::vector<Elements>{0, 3072, 0, 3072}));
}

TEST(Planner, AFinalAlgorithmBeforeTheLastDimensionIsRefused) {
  Grid grid = Grid::from_hosts(hosts_of({2, 2}));
  EXPECT_THROW(make_plan(grid, 0, choice_for(grid, Algorithm::exchange, Algorithm::ring)), Error);
  EXPECT_THROW(make_plan(grid, 0, choice_for(grid, Algorithm::doubling, Algorithm::ring)), Error);
  EXPECT_THROW(make_plan(grid, 0, choice_for(grid, Algorithm::direct, Algorithm::ring, {0})), Error);
  PlanChoice turned = choice_for(grid, Algorithm::direct, Algorithm::exchange);
  turned.order = {{1, 0}};
  EXPECT_THROW(make_plan(grid, 0, turned), Error);
}

TEST(Planner, StepsOfTheLogAlgorithmsGrowWithTheLogarithm) {
  Grid grid = Grid::from_hosts(hosts_of(std::vector<int>(64, 1)));
  Plan halving = make_plan(grid, 5, choice_for(grid, Algorithm::direct, Algorithm::halving));
  Plan doubling = make_plan(grid, 5, choice_for(grid, Algorithm::direct, Algorithm::doubling));
  EXPECT_EQ(halving.steps.size(), 4u * 6);
  EXPECT_EQ(doubling.steps.size(), 2u * 6);
  SliceTable table;
  table.compute(halving, 64 * 64, 4);
  EXPECT_EQ(test::wire_elements(halving, table, 0), 2u * 63 * 64);
}

TEST(Planner, AFunnelSendsOneMessagePerHostInsteadOfOnePerRank) {
  Grid grid = Grid::from_hosts(hosts_of({4, 4, 4, 4}));
  int wire = 0;
  for (const Plan& plan : plans_of(grid, choice_for(grid, Algorithm::funnel, Algorithm::doubling)))
    for (const Step& step : plan.steps) wire += step.verb == Verb::send && step.fabric == Fabric::wire;
  EXPECT_EQ(wire, 4 * 2);
}

TEST(Planner, ShiftedFunnelsLoadAllHostsAlike) {
  for (const auto& machine : {hosts_of({2, 2, 2, 2}), hosts_of({1, 1, 1}), hosts_of({2, 2})}) {
    Grid grid = Grid::from_hosts(machine);
    PlanChoice choice = choice_for(grid, Algorithm::funnel, Algorithm::funnel);
    const int all = shifts(grid, choice, 4096);
    EXPECT_EQ(all, static_cast<int>(machine.size())) << "as many as ranks may own a call";
    constexpr Elements kCount = 1000;
    std::vector<Elements> per_host(static_cast<std::size_t>(machine.back()) + 1);
    for (choice.shift = 0; choice.shift < all; ++choice.shift) {
      EXPECT_EQ(problem_of(grid, choice), "");
      CheckResult result = check_plans(plans_of(grid, choice), kCount, 4);
      for (Rank r = 0; r < grid.ranks(); ++r)
        per_host[static_cast<std::size_t>(machine[static_cast<std::size_t>(r)])] += result.wire_sent[r];
    }
    for (Elements sent : per_host) EXPECT_EQ(sent, per_host[0]);
  }
}

TEST(Planner, OnlyFunnelsBetweenHostsAreShiftedAndOnlyWhereTheirLinksCount) {
  Grid grid = Grid::from_hosts(hosts_of({2, 2, 2, 2}));
  EXPECT_EQ(shifts(grid, choice_for(grid, Algorithm::funnel, Algorithm::funnel), 2048), 1);
  EXPECT_EQ(shifts(grid, choice_for(grid, Algorithm::funnel, Algorithm::ring), 4096), 1);
  EXPECT_EQ(shifts(grid, choice_for(grid, Algorithm::direct, Algorithm::funnel), 4096), 4);
  Grid large = Grid::from_hosts(round_robin(64, 256));
  EXPECT_EQ(shifts(large, choice_for(large, Algorithm::funnel, Algorithm::funnel), 4096), kMostShifts);
}

TEST(Planner, EveryHostSendsTwiceTheBufferLessItsShare) {
  for (const auto& machine : {hosts_of({2, 2, 2, 2}), hosts_of({2, 1, 3}), round_robin(4, 8)})
    for (const std::vector<std::uint32_t>& share : {std::vector<std::uint32_t>{1}, {1, 1}, {2, 1}}) {
      Grid grid = Grid::from_hosts(machine);
      constexpr Elements kCount = 16 * 9 * 4 * 8;
      CheckResult result =
          check_plans(plans_of(grid, choice_for(grid, Algorithm::direct, Algorithm::ring, share)), kCount, 4);
      Elements hosts = static_cast<Elements>(grid.fanout(1));
      std::vector<Elements> per_host(hosts);
      for (Rank r = 0; r < grid.ranks(); ++r)
        per_host[static_cast<std::size_t>(machine[static_cast<std::size_t>(r)])] += result.wire_sent[r];
      for (Elements sent : per_host) EXPECT_NEAR(sent, 2.0 * kCount * (hosts - 1) / hosts, kCount * 0.02);
    }
}

TEST(Planner, WireElementsIsWhatTheCheckerCounts) {
  for (const auto& machine : kMachines) {
    Grid grid = Grid::from_hosts(machine);
    std::vector<Plan> plans = plans_of(grid, choice_for(grid, Algorithm::direct, Algorithm::ring, {2, 1}));
    CheckResult result = check_plans(plans, 4099, 4);
    for (Rank r = 0; r < grid.ranks(); ++r) {
      SliceTable table;
      table.compute(plans[r], 4099, 4);
      EXPECT_EQ(test::wire_elements(plans[r], table, 0) + test::wire_elements(plans[r], table, 1),
                result.wire_sent[r]);
    }
  }
}

TEST(Planner, ManyHostsCostARankOnlyItsOwnSteps) {
  Grid grid = Grid::from_hosts(hosts_of(std::vector<int>(64, 4)));
  Plan plan = make_plan(grid, 17, choice_for(grid, Algorithm::direct, Algorithm::ring));
  EXPECT_LT(plan.steps.size(), 2u * 2 * 63 + 20);
}

TEST(Planner, EveryStepKnowsItsDimensionWhateverTheOrderOfItsLane) {
  Grid grid = test::blocks({2, 2, 3}, 1);
  PlanChoice choice = plain_choice(grid, 2);
  choice.order = {{0, 1, 2}, {2, 0, 1}};
  choice.segment = 4096;
  for (Rank rank = 0; rank < grid.ranks(); ++rank) {
    Plan plan = make_plan(grid, rank, choice);
    std::array<int, 3> steps{};
    for (const Step& step : plan.steps) {
      ASSERT_LT(step.dimension, 3);
      ++steps[step.dimension];
      for (std::uint32_t i = 0; i < step.peers; ++i) {
        Rank peer = plan.peers[step.peer + i], stride = grid.dimension(step.dimension).stride;
        EXPECT_EQ((peer - rank) % stride, 0);
        EXPECT_LT(std::abs(peer - rank), stride * grid.fanout(step.dimension));
      }
    }
    for (int count : steps) EXPECT_GT(count, 0);
  }
}

}  // namespace ddl
