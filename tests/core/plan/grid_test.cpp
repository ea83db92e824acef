#include "core/plan/grid.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "core/base/error.hpp"
#include "tests/core/plan/plans.hpp"

namespace ddl {
namespace {

using test::hosts_of;
using test::round_robin;

std::vector<Rank> extents(const Grid& grid) {
  std::vector<Rank> all;
  for (int d = 0; d < grid.dimensions(); ++d) all.push_back(grid.fanout(d));
  return all;
}

std::string names(const Grid& grid) {
  std::string all;
  for (int d = 0; d < grid.dimensions(); ++d)
    all += fmt::format("{}{}", d ? " " : "", grid.dimension(d).name);
  return all;
}

}  // namespace

TEST(Grid, BlockAndRoundRobinOrderDifferInTheirStrides) {
  Grid block = Grid::from_hosts(hosts_of({4, 4, 4})), dealt = Grid::from_hosts(round_robin(3, 12));
  ASSERT_TRUE(block.is_regular() && dealt.is_regular());
  EXPECT_EQ(extents(block), (std::vector<Rank>{4, 3}));
  EXPECT_EQ(extents(dealt), (std::vector<Rank>{4, 3}));
  EXPECT_EQ(block.dimension(0).stride, 1);
  EXPECT_EQ(block.dimension(1).stride, 4);
  EXPECT_EQ(dealt.dimension(0).stride, 3);
  EXPECT_EQ(dealt.dimension(1).stride, 1);
  EXPECT_EQ(dealt.group_of(4, 0, {}).members, (std::vector<Rank>{1, 4, 7, 10}));
  EXPECT_EQ(dealt.group_of(4, 1, {{1, Owners::all}}).members, (std::vector<Rank>{3, 4, 5}));
}

TEST(Grid, UnequalHostsAreATreeWhosePartsHaveOneOwnerEach) {
  Grid grid = Grid::from_hosts(hosts_of({2, 1, 3}));
  EXPECT_FALSE(grid.is_regular());
  EXPECT_EQ(extents(grid), (std::vector<Rank>{3, 3}));
  EXPECT_EQ(grid.group_of(2, 1, {{1, Owners::all}}).members, (std::vector<Rank>{1, 2, 4}));
  EXPECT_EQ(grid.group_of(2, 1, {{2, Owners::all}}).members, (std::vector<Rank>{0, 2, 5}));
  EXPECT_EQ(grid.group_of(0, 1, {{2, Owners::power_of_two}}).members, (std::vector<Rank>{0, 2, 3}));
  EXPECT_EQ(grid.group_of(4, 0, {}).me, 1u);
}

TEST(Grid, NumaNodesAreADimensionWhereSeveralRanksShareSeveralOfThem) {
  auto of = [](std::vector<HostIndex> hosts, std::vector<int> nodes) {
    return Grid::from_nodes(hosts, nodes);
  };
  Grid two = of({0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 1, 1, 0, 0, 1, 1});
  EXPECT_EQ(names(two), "local NUMA nodes hosts");
  EXPECT_EQ(extents(two), (std::vector<Rank>{2, 2, 2}));
  EXPECT_EQ(two.dimension(1).fabric, Fabric::local);
  EXPECT_EQ(two.group_of(5, 0, {}).members, (std::vector<Rank>{4, 5}));
  EXPECT_EQ(two.group_of(5, 1, {{1, Owners::all}}).members, (std::vector<Rank>{5, 7}));

  Grid dealt = of({0, 0, 0, 0}, {0, 1, 0, 1});
  EXPECT_EQ(dealt.group_of(2, 0, {}).members, (std::vector<Rank>{0, 2}));
  Grid unequal = of({0, 0, 0, 0, 0, 1}, {0, 0, 0, 1, 1, 0});
  EXPECT_EQ(extents(unequal), (std::vector<Rank>{3, 2, 2}));

  EXPECT_EQ(names(of({0, 0, 1, 1}, {0, 0, 0, 0})), "local hosts") << "a host of one node";
  EXPECT_EQ(names(of({0, 0}, {0, 1})), "local") << "no node has two ranks";
  EXPECT_EQ(names(of({0, 0, 0, 0}, {0, 0, 1, -1})), "local") << "somebody's node is unknown";
}

TEST(Grid, EveryGroupOfARegularGridIsThatOfTheTree) {
  std::vector<HostIndex> dealt = round_robin(3, 12);
  std::vector<Rank> reversed(12);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  Grid regular = Grid::from_hosts(dealt);
  Grid tree = Grid::from_levels(dealt, {{"hosts", {dealt.begin(), dealt.end()}}}, reversed);
  ASSERT_TRUE(regular.is_regular() && !tree.is_regular());
  for (Rank rank = 0; rank < 12; ++rank) {
    Group mine = tree.group_of(rank, 0, {});
    std::reverse(mine.members.begin(), mine.members.end());
    EXPECT_EQ(mine.members, regular.group_of(rank, 0, {}).members);
    for (Rank other = 0; other < 12; ++other)
      EXPECT_EQ(regular.same_host(rank, other), tree.same_host(rank, other));
  }
}

TEST(Grid, LevelsBecomeDimensionsAndIdleOnesAreLeftOut) {
  std::vector<HostIndex> hosts = hosts_of({4, 4, 4, 4});
  std::vector<std::int32_t> numa(16), rack(16), aisle(16, 0);
  for (int r = 0; r < 16; ++r) numa[r] = r / 2, rack[r] = r / 8;
  Grid grid =
      Grid::from_levels(hosts, {{"numa", numa}, {"hosts", hosts}, {"racks", rack}, {"aisles", aisle}});
  EXPECT_TRUE(grid.is_regular());
  EXPECT_EQ(extents(grid), (std::vector<Rank>{2, 2, 2, 2}));
  EXPECT_EQ(names(grid), "local numa hosts racks");
  EXPECT_EQ(grid.dimension(1).fabric, Fabric::local);
  EXPECT_EQ(grid.dimension(2).fabric, Fabric::wire);
  Grid flat = Grid::from_levels(hosts, {{"numa", hosts}, {"hosts", hosts}, {"racks", rack}});
  EXPECT_EQ(extents(flat), (std::vector<Rank>{4, 2, 2}));
  EXPECT_EQ(names(flat), "local hosts racks");
}

TEST(Grid, LevelsThatDoNotNestAreRefused) {
  std::vector<HostIndex> hosts = hosts_of({2, 2});
  EXPECT_THROW(Grid::from_levels(hosts, {{"hosts", hosts}, {"racks", {0, 1, 1, 1}}}), Error);
  EXPECT_THROW(Grid::from_levels(hosts, {{"hosts", {0, 1}}}), Error);
  EXPECT_THROW(Grid::from_levels(hosts, {{"hosts", hosts}}, std::array<Rank, 4>{0, 1, 1, 2}), Error);
}

TEST(Grid, OneDimensionStaysHoweverFewTheRanks) {
  EXPECT_EQ(extents(Grid::from_hosts(hosts_of({1}))), (std::vector<Rank>{1}));
  EXPECT_EQ(extents(Grid::from_hosts(hosts_of({1, 1}))), (std::vector<Rank>{1, 2}));
  EXPECT_EQ(extents(Grid::from_dims(hosts_of({1}), std::array<Rank, 2>{1, 1})), (std::vector<Rank>{1}));
}

TEST(Grid, TheUsersDimensionsAreLaidOnHostsWhateverTheRankOrder) {
  Grid grid = Grid::from_dims(round_robin(4, 16), std::array<Rank, 4>{2, 2, 1, 4});
  EXPECT_TRUE(grid.is_regular());
  EXPECT_EQ(extents(grid), (std::vector<Rank>{2, 2, 4}));
  EXPECT_EQ(names(grid), "local local hosts");
  EXPECT_EQ(grid.group_of(5, 0, {}).members, (std::vector<Rank>{1, 5}));
  EXPECT_EQ(grid.group_of(5, 2, {}).members, (std::vector<Rank>{4, 5, 6, 7}));
}

TEST(Grid, ADimensionThatCrossesHostsIsWire) {
  Grid grid = Grid::from_dims(hosts_of({2, 2, 2, 2}), std::array<Rank, 2>{4, 2});
  EXPECT_FALSE(grid.is_regular());
  EXPECT_EQ(grid.dimension(0).fabric, Fabric::wire);
  EXPECT_TRUE(grid.same_host(2, 3));
  EXPECT_FALSE(grid.same_host(1, 2));
  Grid unequal = Grid::from_dims(hosts_of({3, 1, 2}), std::array<Rank, 2>{3, 2});
  EXPECT_EQ(unequal.group_of(3, 0, {}).members, (std::vector<Rank>{3, 4, 5}));
  EXPECT_EQ(unequal.dimension(0).fabric, Fabric::wire);
}

TEST(Grid, AGroupFollowsTheOrderItIsTold) {
  std::vector<HostIndex> hosts = hosts_of({1, 1, 1, 1});
  Grid grid = Grid::from_levels(hosts, {{"hosts", hosts}}, std::array<Rank, 4>{2, 0, 3, 1});
  EXPECT_EQ(grid.group_of(0, 1, {{}}).members, (std::vector<Rank>{2, 0, 3, 1}));
  EXPECT_EQ(grid.group_of(3, 1, {{}}).me, 2u);
}

TEST(Grid, PermutingChangesTheOrderOfTheDimensionsAlone) {
  Grid grid = test::blocks({2, 3, 4}, 1), turned = grid.permuted(std::array<int, 3>{2, 0, 1});
  EXPECT_EQ(extents(turned), (std::vector<Rank>{4, 2, 3}));
  EXPECT_EQ(turned.group_of(7, 0, {}).members, grid.group_of(7, 2, {{}, {}}).members);
  EXPECT_TRUE(turned.same_host(6, 7));
  EXPECT_THROW(grid.permuted(std::array<int, 3>{0, 0, 1}), Error);
  EXPECT_THROW(Grid::from_hosts(hosts_of({1, 2})).permuted(std::array<int, 2>{1, 0}), Error);
}

TEST(Grid, StridesThatDoNotNumberTheRanksAreRefused) {
  EXPECT_THROW(Grid::regular({{"a", 2, 1, Fabric::local}, {"b", 2, 3, Fabric::wire}}), Error);
  EXPECT_THROW(Grid::regular({{"a", 1 << 20, 1, Fabric::local}, {"b", 1 << 20, 1 << 20, Fabric::wire}}),
               Error);
}

TEST(Grid, ARegularGridOfAMillionRanksIsAFewBytes) {
  EXPECT_LT(test::blocks({8, 5, 25, 1000}, 1).bytes(), 1024u);
}

}  // namespace ddl
