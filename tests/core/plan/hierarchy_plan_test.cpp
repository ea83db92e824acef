// The plan is run on sets of contributions: bit r of an element says that rank r's is in it.
#include "core/plan/hierarchy_plan.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/core/plan/plans.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {
namespace {

using test::hosts_of;
using test::round_robin;
using Does = HierarchyVerb;
using Set = std::uint32_t;

std::vector<HierarchyLayout> layouts_of(const Grid& grid) {
  std::vector<HierarchyLayout> layouts;
  for (Rank r = 0; r < grid.ranks(); ++r) layouts.push_back(hierarchy_layout(grid, r));
  return layouts;
}

std::vector<HierarchyPlan> plans_for(const Grid& grid, Elements count, Bytes element_bytes = 4,
                                     HierarchyCut cut = {64, 0, 32},
                                     HierarchyRoute way = HierarchyRoute::nccl) {
  std::vector<HierarchyPlan> plans;
  for (const HierarchyLayout& layout : layouts_of(grid))
    plans.push_back(hierarchy_plan(layout, way, count, element_bytes, cut));
  return plans;
}

// The communicators of a job, on buffers of sets.
class Cluster {
 public:
  Cluster(const Grid& grid, Elements count)
      : layouts_(layouts_of(grid)), out_(layouts_.size(), std::vector<Set>(count, 0)) {}

  // Step `index` of all plans at once, as NCCL does it: a group whose ranks differ in it is an error.
  void run(const std::vector<HierarchyPlan>& plans, std::size_t index) {
    std::map<Rank, std::vector<std::size_t>> groups;
    for (std::size_t r = 0; r < plans.size(); ++r) {
      ASSERT_LT(index, plans[r].steps.size());
      ASSERT_EQ(plans[r].steps[index].verb, plans[0].steps[index].verb);
      ASSERT_EQ(plans[r].steps[index].dimension, plans[0].steps[index].dimension);
      ASSERT_EQ(plans[r].steps[index].after, plans[0].steps[index].after);
      groups[layouts_[r][plans[r].steps[index].dimension].first].push_back(r);
    }
    for (const auto& [first, members] : groups) run_group(plans, index, members);
  }
  // What the flat all-reduce does.
  void finish(Range tail) {
    for (auto& buffer : out_)
      for (Elements i = 0; i < tail.count; ++i) buffer[tail.first + i] |= (Set{1} << out_.size()) - 1;
  }
  bool is_done() const {
    for (const auto& buffer : out_)
      for (Set set : buffer)
        if (set != (Set{1} << out_.size()) - 1) return false;
    return true;
  }

 private:
  void run_group(const std::vector<HierarchyPlan>& plans, std::size_t index,
                 const std::vector<std::size_t>& members) {
    const Range whole = plans[members[0]].steps[index].whole;
    auto extent = layouts_[members[0]][plans[members[0]].steps[index].dimension].extent;
    ASSERT_EQ(members.size(), static_cast<std::size_t>(extent));
    std::vector<Set> all(whole.count, 0);
    for (std::size_t r : members) {
      const HierarchyStep& step = plans[r].steps[index];
      ASSERT_EQ(step.whole, whole);
      check_share(step, layouts_[r][step.dimension]);
      const Range brought = step.verb == Does::all_gather ? step.mine : whole;
      for (Elements i = brought.first; i < brought.first + brought.count; ++i) {
        Set one = step.reads_input ? Set{1} << r : out_[r][i];
        ASSERT_EQ(all[i - whole.first] & one, 0u) << "counted twice";
        all[i - whole.first] |= one;
      }
    }
    for (std::size_t r : members) {
      const HierarchyStep& step = plans[r].steps[index];
      const Range taken = step.verb == Does::reduce_scatter ? step.mine : whole;
      for (Elements i = taken.first; i < taken.first + taken.count; ++i) out_[r][i] = all[i - whole.first];
    }
  }
  // NCCL puts the shares one behind the other, in the order of the ranks.
  static void check_share(const HierarchyStep& step, const HierarchyDimension& dimension) {
    const bool all = step.verb == Does::all_reduce;
    auto extent = all ? 1 : static_cast<Elements>(dimension.extent);
    auto place = all ? 0 : static_cast<Elements>(dimension.place);
    EXPECT_EQ(step.mine.count * extent, step.whole.count);
    EXPECT_EQ(step.mine.first, step.whole.first + place * step.mine.count);
  }

  std::vector<HierarchyLayout> layouts_;
  std::vector<std::vector<Set>> out_;
};

std::vector<Grid> grids() {
  std::vector<HostIndex> mixed = {0, 1, 1, 0, 1, 0}, two = hosts_of({4, 4}), four = hosts_of({2, 2, 2, 2});
  std::vector<Rank> cube = {2, 2, 2}, long_one = {2, 2, 3};
  return {Grid::from_hosts(hosts_of({2, 2})),    Grid::from_hosts(hosts_of({3, 3})),
          Grid::from_hosts(hosts_of({4, 4})),    Grid::from_hosts(hosts_of({2, 2, 2})),
          Grid::from_hosts(round_robin(3, 6)),   Grid::from_hosts(mixed),
          Grid::from_hosts(hosts_of({1, 1, 1})), Grid::from_dims(two, cube),
          Grid::from_dims(four, cube),           Grid::from_dims(hosts_of({6, 6}), long_one)};
}

}  // namespace

TEST(HierarchyPlan, EveryElementOfEveryRankIsTheSumOfAllForAnyCount) {
  for (HierarchyRoute way : {HierarchyRoute::nccl, HierarchyRoute::rails})
    for (const Grid& grid : grids())
      for (Elements count = 0; count <= 1000; count += test::thinned(13)) {
        std::vector<HierarchyPlan> plans = plans_for(grid, count, 4, {64, 0, 32}, way);
        Cluster cluster(grid, count);
        for (std::size_t i = 0; i < plans[0].steps.size(); ++i)
          ASSERT_NO_FATAL_FAILURE(cluster.run(plans, i));
        cluster.finish(plans[0].tail);
        for (const HierarchyPlan& plan : plans) ASSERT_EQ(plan.tail, plans[0].tail);
        ASSERT_TRUE(cluster.is_done()) << name_of(hierarchy_layout(grid, 0), way) << ", " << count;
      }
}

// Streams go ahead of each other: what a step needs must be said by `after`, not by luck.
TEST(HierarchyPlan, StepsMayRunInAnyOrderThatStreamsAndAfterAllow) {
  for (const Grid& grid : grids()) {
    const Elements count = 2000;
    std::vector<HierarchyPlan> plans = plans_for(grid, count);
    const std::vector<HierarchyStep>& steps = plans[0].steps;
    for (std::size_t eager = 0; eager < 3; ++eager) {  // the dimension whose stream goes first where it can
      Cluster cluster(grid, count);
      std::vector<bool> done(steps.size(), false);
      for (std::size_t ran = 0; ran < steps.size(); ++ran) {
        std::optional<std::size_t> next;
        std::vector<bool> blocked(3, false);
        for (std::size_t i = 0; i < steps.size(); ++i) {
          if (done[i] || blocked[steps[i].dimension]) continue;
          blocked[steps[i].dimension] = true;
          bool ready = !steps[i].after || done[*steps[i].after];
          if (ready && (!next || steps[i].dimension == eager)) next = i;
        }
        ASSERT_TRUE(next) << "no step can go on";
        ASSERT_NO_FATAL_FAILURE(cluster.run(plans, *next));
        done[*next] = true;
      }
      cluster.finish(plans[0].tail);
      EXPECT_TRUE(cluster.is_done());
    }
  }
}

TEST(HierarchyPlan, InsideAndAcrossTakeTurnsOnDifferentSegments) {
  HierarchyPlan plan = plans_for(Grid::from_hosts(hosts_of({2, 2})), 64)[0];  // four segments
  std::string order;
  for (const HierarchyStep& step : plan.steps)
    order += step.verb == Does::reduce_scatter ? 's' : step.verb == Does::all_reduce ? 'R' : 'g';
  EXPECT_EQ(order, "ssRsRgsRgRgg");
}

TEST(HierarchyPlan, RailsHaveTheLastDimensionAndSegmentsThatAreLongThere) {
  auto rails = [](const std::vector<HostIndex>& hosts) {
    return plans_for(Grid::from_hosts(hosts), 4096, 4, {4096, 0, 32}, HierarchyRoute::rails)[0];
  };
  HierarchyPlan inside_too = rails(hosts_of({4, 4}));  // 16 KiB: one segment, of which a rank has 4096 bytes
  ASSERT_EQ(inside_too.steps.size(), 3u);
  for (const HierarchyStep& step : inside_too.steps)
    EXPECT_EQ(step.on_rails, step.verb == Does::all_reduce && step.dimension == 1);
  EXPECT_EQ(inside_too.steps[1].whole.count * 4, 4096u);
  EXPECT_EQ(plans_for(Grid::from_hosts(hosts_of({1, 1})), 4097, 4, {4096, 0, 32}, HierarchyRoute::rails)[1]
                .tail.count,
            0u)
      << "NCCL has no part in it";
  HierarchyPlan alone = rails(hosts_of({1, 1}));
  ASSERT_EQ(alone.steps.size(), 4u);
  for (const HierarchyStep& step : alone.steps) EXPECT_TRUE(step.on_rails && step.reads_input);
  EXPECT_EQ(alone.tail.count, 0u);
}

TEST(HierarchyPlan, AsAWholeThereAreNoSteps) {
  Grid grid = Grid::from_hosts(hosts_of({2, 2}));
  HierarchyPlan plan = plans_for(grid, 1000, 4, {64, 0, 32}, HierarchyRoute::whole)[0];
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_EQ(plan.tail, (Range{0, 1000}));
}

TEST(HierarchyPlan, TheTailIsLessThanSixteenBytesPerRankOfAHostAndOffsetsAreAligned) {
  for (Bytes element : {1, 2, 4, 8})
    for (Elements count : {100001, 262144, 1048583}) {
      HierarchyPlan plan = plans_for(Grid::from_hosts(hosts_of({4, 4})), count, element, {65536, 0, 32})[3];
      EXPECT_LT(plan.tail.count * element, 4 * 16u);
      EXPECT_EQ(plan.tail.first + plan.tail.count, count);
      for (const HierarchyStep& step : plan.steps) EXPECT_EQ(step.mine.first * element % 16, 0u);
    }
}

TEST(HierarchyPlan, SmallCallsHaveNoSteps) {
  Grid grid = Grid::from_hosts(hosts_of({2, 2}));
  HierarchyCut cut;
  EXPECT_TRUE(plans_for(grid, cut.least / 4 - 1, 4, cut)[0].steps.empty());
  EXPECT_FALSE(plans_for(grid, cut.least / 4, 4, cut)[0].steps.empty());
  EXPECT_FALSE(plans_for(grid, 16384, 4, HierarchyCut::with_segment(65536))[0].steps.empty());
  EXPECT_TRUE(plans_for(grid, 16383, 4, HierarchyCut::with_segment(65536))[0].steps.empty());
}

TEST(HierarchyPlan, HugeCallsHaveLongerSegmentsInsteadOfMore) {
  HierarchyPlan plan = plans_for(Grid::from_hosts(hosts_of({8, 8})), Elements{1} << 32, 4, {})[5];
  EXPECT_EQ(plan.steps.size(), 3 * HierarchyCut().most_segments);
}

TEST(HierarchyPlan, GridsWithoutAnInsideOrAnOutsideHaveAReason) {
  auto why = [](const std::vector<HostIndex>& hosts, bool by_rails = false) {
    return why_no_hierarchy(Grid::from_hosts(hosts), by_rails);
  };
  EXPECT_EQ(why(hosts_of({2, 2})), "");
  EXPECT_EQ(why({0, 1, 1, 0}), "");
  EXPECT_EQ(why(hosts_of({4})), "all ranks are on one host");
  EXPECT_EQ(why(hosts_of({1, 1, 1})), "every host has one rank");
  EXPECT_EQ(why(hosts_of({1, 1, 1}), true), "") << "the rails alone";
  std::vector<Rank> flat = {4};
  EXPECT_EQ(why_no_hierarchy(Grid::from_dims(hosts_of({2, 2}), flat), false),
            "one dimension joins all ranks");
  EXPECT_EQ(why(hosts_of({2, 1})), "groups of 1 to 2 ranks in one dimension");
  EXPECT_EQ(why_no_hierarchy(Grid::from_dims(hosts_of({128, 128}), std::vector<Rank>(8, 2)), false), "");
  EXPECT_EQ(why_no_hierarchy(Grid::from_dims(hosts_of({256, 256}), std::vector<Rank>(9, 2)), false),
            "9 dimensions, more than 8");
}

TEST(HierarchyPlan, RailsAreForGroupsWithoutTwoRanksOfAHost) {
  std::vector<Rank> across = {2, 4}, cube = {2, 2, 2};
  EXPECT_TRUE(rails_can_be_last(Grid::from_hosts(hosts_of({2, 2}))));
  EXPECT_TRUE(rails_can_be_last(Grid::from_hosts(hosts_of({1, 1, 1}))));
  EXPECT_TRUE(rails_can_be_last(Grid::from_dims(hosts_of({4, 4}), cube)));
  EXPECT_FALSE(rails_can_be_last(Grid::from_dims(hosts_of({4, 4}), across))) << "four ranks of two hosts";
  EXPECT_FALSE(rails_can_be_last(Grid::from_hosts(hosts_of({4}))));
}

TEST(HierarchyLayout, GroupsAreNamedByTheirFirstRank) {
  Grid grid = Grid::from_hosts(round_robin(2, 6));
  EXPECT_EQ(hierarchy_layout(grid, 3), (HierarchyLayout{{3, 1, 1}, {2, 2, 1}}));
  EXPECT_EQ(name_of(hierarchy_layout(grid, 3)), "3x2");
  EXPECT_EQ(name_of(hierarchy_layout(grid, 3), HierarchyRoute::rails), "3x2 on NCCL and rails");
  grid = Grid::from_hosts(hosts_of({1, 1}));
  EXPECT_EQ(name_of(hierarchy_layout(grid, 1), HierarchyRoute::rails), "2 on rails");
}

}  // namespace ddl
