#include "core/plan/plan.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "core/plan/check.hpp"
#include "core/plan/planner.hpp"

namespace ddl {
namespace {

std::vector<HostIndex> hosts_of(const std::vector<int>& ranks_per_host) {
  std::vector<HostIndex> host_of_rank;
  for (std::size_t h = 0; h < ranks_per_host.size(); ++h)
    host_of_rank.insert(host_of_rank.end(), static_cast<std::size_t>(ranks_per_host[h]),
                        static_cast<HostIndex>(h));
  return host_of_rank;
}

std::vector<HostIndex> round_robin(int hosts, int ranks) {
  std::vector<HostIndex> host_of_rank;
  for (int r = 0; r < ranks; ++r) host_of_rank.push_back(r % hosts);
  return host_of_rank;
}

std::vector<Plan> plans_of(const Grid& grid, const PlanChoice& choice) {
  std::vector<Plan> plans;
  for (Rank r = 0; r < grid.ranks(); ++r) plans.push_back(make_plan(grid, r, choice));
  return plans;
}

const std::vector<std::vector<HostIndex>> kMachines = {
    hosts_of({1}),       hosts_of({2}),     hosts_of({3}),       hosts_of({5}),
    hosts_of({7}),       hosts_of({1, 1}),  hosts_of({2, 2}),    hosts_of({2, 2, 2}),
    hosts_of({2, 1, 3}), hosts_of({1, 4}),  hosts_of({3, 3, 1}), hosts_of({1, 1, 1, 1}),
    round_robin(4, 8),   round_robin(3, 7), {2, 0, 1, 0, 2, 2}};

PlanChoice choice_for(const Grid& grid, Algorithm local, Algorithm hosts, LaneId lanes) {
  PlanChoice choice;
  choice.algorithm = {local};
  if (grid.dimensions() > 1) choice.algorithm.push_back(hosts);
  choice.lanes = lanes;
  choice.segment = 1 << 20;
  return choice;
}

}  // namespace

TEST(Plan, EveryRankEndsWithEveryContributionExactlyOnce) {
  for (const auto& machine : kMachines)
    for (Algorithm hosts : {Algorithm::ring, Algorithm::direct, Algorithm::exchange})
      for (LaneId lanes : {1, 2, 3})
        for (Elements count : {0, 1, 2, 3, 7, 64, 1000}) {
          Grid grid = Grid::from_hosts(machine);
          CheckResult result =
              check_plans(plans_of(grid, choice_for(grid, Algorithm::direct, hosts, lanes)), count, 4);
          EXPECT_EQ(result.problem, "")
              << grid.ranks() << " ranks, " << count << " elements, " << lanes << " lanes";
        }
}

TEST(Plan, OneStepExchangeIsCompleteOnOneHost) {
  for (int ranks : {1, 2, 3, 4, 7}) {
    Grid grid = Grid::from_hosts(hosts_of({ranks}));
    EXPECT_EQ(
        check_plans(plans_of(grid, choice_for(grid, Algorithm::exchange, Algorithm::ring, 1)), 5, 8).problem,
        "");
  }
}

TEST(Plan, ARingInTheHostIsCompleteToo) {
  for (const auto& machine : kMachines) {
    Grid grid = Grid::from_hosts(machine);
    EXPECT_EQ(
        check_plans(plans_of(grid, choice_for(grid, Algorithm::ring, Algorithm::ring, 2)), 640, 4).problem,
        "");
  }
}

TEST(Plan, EveryHostSendsTwiceTheBufferLessItsShare) {
  for (const auto& machine : {hosts_of({2, 2, 2, 2}), hosts_of({2, 1, 3}), round_robin(4, 8)})
    for (LaneId lanes : {1, 2}) {
      Grid grid = Grid::from_hosts(machine);
      constexpr Elements kCount = 16 * 9 * 4 * 8;
      CheckResult result =
          check_plans(plans_of(grid, choice_for(grid, Algorithm::direct, Algorithm::ring, lanes)), kCount, 4);
      Elements hosts = static_cast<Elements>(grid.fanout(1));
      std::vector<Elements> per_host(hosts);
      for (Rank r = 0; r < grid.ranks(); ++r) per_host[grid.ancestor(r, 1)] += result.wire_sent[r];
      for (Elements sent : per_host) EXPECT_NEAR(sent, 2.0 * kCount * (hosts - 1) / hosts, kCount * 0.02);
    }
}

TEST(Plan, WireElementsIsWhatTheCheckerCounts) {
  for (const auto& machine : kMachines) {
    Grid grid = Grid::from_hosts(machine);
    std::vector<Plan> plans = plans_of(grid, choice_for(grid, Algorithm::direct, Algorithm::ring, 2));
    CheckResult result = check_plans(plans, 4099, 4);
    for (Rank r = 0; r < grid.ranks(); ++r) {
      SliceTable table;
      table.compute(plans[r], 4099, 4);
      EXPECT_EQ(wire_elements(plans[r], table, 0) + wire_elements(plans[r], table, 1), result.wire_sent[r]);
    }
  }
}

TEST(Plan, TheCheckerSeesABrokenRing) {
  Grid grid = Grid::from_hosts(hosts_of({1, 1, 1}));
  std::vector<Plan> plans = plans_of(grid, choice_for(grid, Algorithm::direct, Algorithm::ring, 1));
  std::vector<Step>& steps = plans[0].steps;
  std::swap(steps[1].slice, steps[3].slice);  // two ring offsets
  EXPECT_NE(check_plans(plans, 64, 4).problem, "");
}

TEST(Plan, TheChoiceForEachSizeFitsTheStaging) {
  for (const auto& machine : kMachines)
    for (Bytes bytes : {Bytes{1}, Bytes{4096}, Bytes{1} << 20, Bytes{1} << 33})
      for (Bytes staging : {Bytes{256} << 10, Bytes{4} << 20}) {
        Grid grid = Grid::from_hosts(machine);
        PlanChoice choice = choose(grid, bytes, {2, staging, 0});
        EXPECT_LE(choice.segment * static_cast<Bytes>(choice.window), staging);
        EXPECT_EQ(check_plans(plans_of(grid, choice), 333, 8).problem, "");
      }
}

TEST(Plan, ManyHostsCostARankOnlyItsOwnSteps) {
  Grid grid = Grid::from_hosts(hosts_of(std::vector<int>(64, 4)));
  Plan plan = make_plan(grid, 17, choice_for(grid, Algorithm::direct, Algorithm::ring, 1));
  EXPECT_LT(plan.steps.size(), 2u * 2 * 63 + 20);
}

}  // namespace ddl
