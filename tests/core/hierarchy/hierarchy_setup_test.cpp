#include "core/hierarchy/hierarchy_setup.hpp"

#include <atomic>

#include "tests/core/hierarchy/job.hpp"

namespace ddl::test {
namespace {

using enum HierarchyRoute;

}  // namespace

TEST(HierarchySetup, EachDimensionHasAPartAndItsRankThere) {
  HierarchyJob job({2, 3});
  job.run({nccl}, [](HierarchyJob::Member& here) {
    ASSERT_TRUE(here.hierarchy);
    const std::vector<void*> parts = here.hierarchy->parts();
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(library::of(parts[0]).place, static_cast<std::size_t>(here.rank % 2));
    EXPECT_EQ(library::of(parts[1]).place, static_cast<std::size_t>(here.rank / 2));
  });
}

TEST(HierarchySetup, WhereOneRankFailsAllLeaveTheLibraryAlone) {
  HierarchyJob job({2, 2});
  std::atomic<int> hierarchies = 0;
  auto breaks = [](HierarchyJob::Member& here) { here.whole.splits_fail = here.rank == 2; };
  job.run({nccl}, breaks, [&](HierarchyJob::Member& here) { hierarchies += here.hierarchy != nullptr; });
  EXPECT_EQ(hierarchies, 0);
  EXPECT_EQ(tally.parts, 0) << "what there was is destroyed";
}

TEST(HierarchySetup, WhereOneRankHasNoRailsAllDoWithout) {
  HierarchyJob job({2, 2});
  has_no_rails = "rank 1";
  job.run({nccl, rails}, [&](HierarchyJob::Member& here) {
    ASSERT_TRUE(here.hierarchy);
    EXPECT_FALSE(here.hierarchy->may_have_rails());
    std::vector<Value> in = input_of(here.rank, 100), out(100);
    EXPECT_EQ(here.sum(in, out), nccl);
    EXPECT_EQ(out, sum_of(job.ranks(), 100));
  });
  EXPECT_EQ(tally.on_rails, 0);
  EXPECT_EQ(tally.rails, 0);
}

TEST(HierarchySetup, WithoutRailsOneRankPerHostHasNothingLeft) {
  HierarchyJob job({1, 3});
  std::atomic<int> hierarchies = 0;
  has_no_rails = "rank 0";
  job.run({whole, rails}, [&](HierarchyJob::Member& here) { hierarchies += here.hierarchy != nullptr; });
  EXPECT_EQ(hierarchies, 0);
}

}  // namespace ddl::test
