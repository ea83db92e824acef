#include "core/topology/draw_layout.hpp"

#include <gtest/gtest.h>

#include "tests/core/topology/example_machines.hpp"

namespace ddl {
namespace {

using example::two_packages;
using Hosts = std::vector<std::string>;

}  // namespace

TEST(DrawLayout, EveryCoreGpuAndRankIsShownOnce) {
  Topology topology{{two_packages("h0", 1)},
                    {{0, 0, {0, 1}, 0}, {1, 0, {4, 5, 6, 7}, 3}, {2, 0, {}, -1}, {3, 0, {3, 4}, -1}}};
  HostView view = view_host(topology, 0);
  ASSERT_EQ(view.places.size(), 2u);
  EXPECT_EQ(view.places[0].cores.size() + view.places[1].cores.size(), 4u);
  EXPECT_EQ(view.places[0].gpus.size() + view.places[1].gpus.size(), 4u);
  EXPECT_EQ(view.places[0].ranks, (std::vector<Rank>{0}));
  EXPECT_EQ(view.places[1].ranks, (std::vector<Rank>{1}));
  EXPECT_EQ(view.unbound_ranks, (std::vector<Rank>{2, 3})) << "unbound, or bound across two places";
  EXPECT_EQ(view.ranks_of_gpu.at(3), (std::vector<Rank>{1}));
}

TEST(DrawLayout, ANumaNodeOfSeveralPackagesNamesThem) {
  NodeTopology node;
  for (int p = 0; p < 4; ++p) node.packages.push_back({p, p, "", {p}, {}});
  node.numa = {{0, 0, -1, 0, {0, 1, 2, 3}, {}}};
  EXPECT_EQ(view_host({{node}, {}}, 0).places.at(0).title, "packages 0-3 · NUMA 0");
}

TEST(DrawLayout, WithoutNumaNodesThePackagesAreThePlaces) {
  NodeTopology node = two_packages("h0", 1);
  node.numa.clear();
  for (Gpu& gpu : node.gpus) gpu.numa = -1;
  HostView view = view_host({{node}, {}}, 0);
  ASSERT_EQ(view.places.size(), 2u);
  EXPECT_EQ(view.places[1].title, "package 1");
  EXPECT_EQ(view.places[1].gpus.size(), 2u);
}

// A cgroup does not show the memory there, or its node is not online.
TEST(DrawLayout, CoresOfNoNumaNodeAreShownInTheirPackage) {
  NodeTopology node = two_packages("h0", 1);
  std::erase_if(node.numa, [](const NumaNode& numa) { return numa.index == 0; });
  for (Core& core : node.cores)
    if (core.numa == 0) core.numa = -1;
  HostView view = view_host({{node}, {}}, 0);
  ASSERT_EQ(view.places.size(), 2u);
  EXPECT_EQ(view.places[1].title, "package 0");
  EXPECT_EQ(view.places[1].cores.size(), 2u);
  EXPECT_EQ(view.places[1].pus, (std::vector<int>{0, 1, 2, 3}));
}

TEST(DrawLayout, AGpuOfUnknownPlaceIsStillShown) {
  NodeTopology node = two_packages("h0", 1);
  node.gpus[0].numa = node.gpus[0].package = -1;
  node.gpus[1].numa = 7;  // a number the node does not have
  node.gpus[1].package = -1;
  EXPECT_EQ(view_host({{node}, {}}, 0).gpus_elsewhere.size(), 2u);
}

TEST(DrawLayout, RingsExistWhereEveryHostHasARail) {
  Topology topology{{two_packages("h0", 1), two_packages("h1", 2), two_packages("h2", 3)}, {}};
  EXPECT_EQ(possible_rings(topology),
            (std::vector<RingDrawing>{{"eth0 10.0.1.0/24", Hosts{"h0", "h1", "h2"}},
                                      {"eth1 10.0.2.0/24", Hosts{"h0", "h1", "h2"}}}));
  EXPECT_EQ(possible_rings(topology, {"eth1"}).size(), 1u);
  topology.hosts[1].nics[0].nic.running = false;
  ASSERT_EQ(possible_rings(topology).size(), 1u);
  EXPECT_EQ(possible_rings(topology)[0].rail, "eth1 10.0.2.0/24");
  topology.hosts.resize(1);
  EXPECT_TRUE(possible_rings(topology).empty());
}

TEST(DrawLayout, HostsAreAlikeWhenOnlyNamesAddressesAndMemoryDiffer) {
  NodeTopology a = two_packages("h0", 1), b = two_packages("h1", 2);
  b.memory += 12345;
  EXPECT_TRUE(are_alike(a, b));
  b.links.pop_back();
  EXPECT_FALSE(are_alike(a, b));
}

TEST(DrawLayout, LinksOfOneKindAndRateFormAGroup) {
  NodeTopology node = two_packages("h0", 1);
  node.links.push_back({"gpu0", "package0", 15.8, "PCIe", "hwloc"});
  ASSERT_EQ(group_links(node).size(), 1u);
  EXPECT_EQ(group_links(node)[0].pairs.size(), 2u);
  EXPECT_FALSE(group_links(node)[0].all_gpu_pairs);
  EXPECT_EQ(pcie_of(node, "gpu0"), 15.8);
  EXPECT_EQ(pcie_of(node, "gpu1"), 0);
  node.links.clear();
  for (int a = 0; a < 4; ++a)
    for (int b = a + 1; b < 4; ++b)
      node.links.push_back(
          {"gpu" + std::to_string(a), "gpu" + std::to_string(b), 150, "NVLink through switches", ""});
  EXPECT_TRUE(group_links(node).at(0).all_gpu_pairs);
}

TEST(DrawLayout, NumbersAreWordedAsRanges) {
  EXPECT_EQ(range_words({3, 0, 1, 2, 8, 10, 9, 12}), "0-3,8-10,12");
  EXPECT_EQ(range_words({}), "");
}

}  // namespace ddl
