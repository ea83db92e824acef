#include "core/plan/choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/plan/check.hpp"
#include "tests/core/plan/plans.hpp"

namespace ddl {
namespace {

using test::hosts_of;
using test::plans_of;
using test::round_robin;

const PlanLimits kRoomy = {1, Bytes{16} << 20};

std::vector<Grid> grids() {
  std::vector<Grid> all;
  for (const auto& machine : {hosts_of({1}), hosts_of({3}), hosts_of({2, 1, 3}), hosts_of({1, 1, 1, 1}),
                              round_robin(4, 8), round_robin(3, 7)})
    all.push_back(Grid::from_hosts(machine));
  all.push_back(test::blocks({2, 2, 3, 2}, 2));
  all.push_back(Grid::from_dims(hosts_of({2, 2, 2, 2}), std::vector<Rank>{4, 2}));
  return all;
}

Algorithm last_of(const Grid& grid, Bytes bytes) { return choose(grid, bytes, kRoomy).algorithm.back(); }

}  // namespace

TEST(Choice, ForEachSizeFitsTheStagingAndIsComplete) {
  for (const Grid& grid : grids())
    for (Bytes bytes : {Bytes{1}, Bytes{4096}, Bytes{1} << 20, Bytes{1} << 33})
      for (Bytes staging : {Bytes{64} << 10, Bytes{256} << 10, Bytes{4} << 20}) {
        PlanChoice choice = choose(grid, bytes, {2, staging});
        EXPECT_LE(staging_need(grid, choice), staging);
        EXPECT_EQ(check_plans(plans_of(grid, choice), 333, 8).problem, "");
      }
}

TEST(Choice, CandidatesAreAHandfulOfDifferentPlansFastestFirst) {
  for (const Grid& grid : grids())
    for (Bytes bytes : {Bytes{64}, Bytes{1} << 16, Bytes{1} << 24}) {
      std::vector<Candidate> all = candidates(grid, bytes, {2, Bytes{16} << 20});
      ASSERT_FALSE(all.empty());
      EXPECT_LE(all.size(), 8u);
      EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
        return a.predicted.seconds < b.predicted.seconds;
      }));
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(check_plans(plans_of(grid, all[i].choice), 100, 4).problem, "");
        for (std::size_t j = 0; j < i; ++j)
          EXPECT_NE(describe(grid, all[i].choice), describe(grid, all[j].choice));
      }
    }
}

TEST(Choice, InAHostTinyMessagesAreExchangedAndLargeOnesCut) {
  Grid two = Grid::from_hosts(hosts_of({2})), four = Grid::from_hosts(hosts_of({4}));
  EXPECT_EQ(last_of(two, 8 << 10), Algorithm::exchange);
  EXPECT_EQ(last_of(two, 16 << 10), Algorithm::direct);
  EXPECT_EQ(last_of(four, 4 << 10), Algorithm::exchange);
  EXPECT_EQ(last_of(four, 16 << 10), Algorithm::direct);
}

TEST(Choice, OverManyHostsStepsAreFewForSmallBuffersAndLinksFullForLargeOnes) {
  Grid grid = test::blocks({4, 64}, 1);
  EXPECT_EQ(last_of(grid, 64), Algorithm::doubling);
  EXPECT_EQ(last_of(grid, 64 << 10), Algorithm::halving);
  EXPECT_EQ(last_of(grid, 256 << 20), Algorithm::ring);
  Grid few = Grid::from_hosts(hosts_of({2, 2, 2, 2}));
  EXPECT_EQ(last_of(few, 1024), Algorithm::exchange);
  EXPECT_EQ(last_of(few, 16 << 20), Algorithm::ring);
}

TEST(Choice, WhereHostsShareProcessorsFewMessagesCountMoreThanFewSteps) {
  Grid grid = Grid::from_hosts(hosts_of({2, 2, 2, 2}));
  PlanLimits shared = kRoomy;
  shared.machine.shared_cores = 2;
  auto last = [&](Bytes bytes) { return choose(grid, bytes, shared).algorithm.back(); };
  EXPECT_EQ(last_of(grid, 8), Algorithm::exchange);
  EXPECT_EQ(last(8), Algorithm::funnel);
  EXPECT_EQ(last(4096), Algorithm::funnel);
  EXPECT_EQ(last(8192), Algorithm::doubling);
  EXPECT_EQ(last(16 << 10), Algorithm::halving);
  EXPECT_EQ(last(16 << 20), Algorithm::ring);
}

TEST(Choice, RailsCarryWhatTheyAreMeasuredToCarry) {
  PlanLimits limits = {2, Bytes{16} << 20};
  limits.machine.rail_rate = {60e6, 120e6};
  Grid grid = Grid::from_hosts(hosts_of({2, 2, 2, 2}));
  EXPECT_EQ(choose(grid, 16 << 20, limits).share, (std::vector<std::uint32_t>{1, 2}));
  PlanChoice tiny = choose(grid, 64, limits);
  EXPECT_EQ(tiny.share.size(), 1u);
  EXPECT_EQ(tiny.rail, (std::vector<RailId>{1}));
}

TEST(Choice, OverManyHostsStagingHoldsMoreButSmallerSegments) {
  PlanChoice few = choose(Grid::from_hosts(round_robin(4, 8)), Bytes{1} << 28, kRoomy);
  PlanChoice many = choose(Grid::from_hosts(round_robin(64, 256)), Bytes{1} << 28, kRoomy);
  EXPECT_EQ(many.window, 2 * few.window);
}

TEST(Choice, TheUsersSegmentIsKept) {
  PlanLimits limits = {1, Bytes{16} << 20, 32 << 10};
  EXPECT_EQ(choose(Grid::from_hosts(hosts_of({2, 2})), 16 << 20, limits).segment, Bytes{32} << 10);
}

}  // namespace ddl
