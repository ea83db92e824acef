#include "core/plan/link_load.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "tests/core/plan/plans.hpp"

namespace ddl {
namespace {

using test::choice_for;
using test::hosts_of;
using test::plans_of;

constexpr double kGiga = 1e9;
// Bytes of the buffer: cut by any of the sizes below without a remainder.
constexpr Elements kElements = 8 * 9 * 1024;
constexpr Bytes kBuffer = kElements * 4;

// Every link carries the same both ways, as far as `used` is concerned: all must carry something.
void expect_both_ways_alike(const Network& network, const std::vector<Bytes>& load) {
  for (LinkId link = 0; link < network.links(); ++link) {
    EXPECT_GT(load[link], 0u) << network.name(link);
    EXPECT_EQ(load[link], load[link ^ 1]) << network.name(link);
  }
}

// Two packages, each with a CPU, two GPUs and a NIC port; NVLink between the GPUs of a package and to its
// CPU, the X-bus between the packages; the ports of all hosts on one switch per rail.
struct S822lc {
  Network network;
  RankPlaces places;
  std::vector<std::vector<VertexId>> nics;  // per host, per package
  std::vector<std::vector<VertexId>> cpus;

  explicit S822lc(int hosts) {
    std::vector<VertexId> rail;
    if (hosts > 1) rail = {network.add("rail0", Role::through), network.add("rail1", Role::through)};
    for (int h = 0; h < hosts; ++h) add_host(h, rail);
    places.nic = [this](Rank rank, RailId on) { return nics[static_cast<std::size_t>(rank / 4)][on]; };
  }

  void add_host(int h, const std::vector<VertexId>& rail) {
    nics.emplace_back();
    cpus.emplace_back();
    for (int package = 0; package < 2; ++package) {
      VertexId cpu = network.add(fmt::format("h{}.cpu{}", h, package), Role::through);
      cpus.back().push_back(cpu);
      VertexId gpu[2];
      for (int g = 0; g < 2; ++g) {
        gpu[g] = network.add(fmt::format("h{}.gpu{}", h, package * 2 + g), Role::end);
        network.connect(gpu[g], cpu, 40 * kGiga);
        places.vertex.push_back(gpu[g]);
      }
      network.connect(gpu[0], gpu[1], 40 * kGiga);
      if (rail.empty()) continue;
      nics.back().push_back(network.add(fmt::format("h{}.nic{}", h, package), Role::through));
      network.connect(cpu, nics.back().back(), 16 * kGiga);
      network.connect(nics.back().back(), rail[static_cast<std::size_t>(package)], 12.5 * kGiga);
    }
    network.connect(cpus.back()[0], cpus.back()[1], 32 * kGiga);
  }
};

// Hosts below leaf switches below a spine; host h is on leaf h mod leaves, so that rank order is bad order.
struct SwitchTree {
  Network network;
  RankPlaces places;
  VertexId spine = network.add("spine", Role::through);

  SwitchTree(int leaves, int hosts) {
    std::vector<VertexId> leaf;
    for (int i = 0; i < leaves; ++i) {
      leaf.push_back(network.add(fmt::format("leaf{}", i), Role::through));
      network.connect(leaf.back(), spine, 12.5 * kGiga);
    }
    for (int h = 0; h < hosts; ++h) {
      places.vertex.push_back(network.add(fmt::format("h{}", h), Role::end));
      network.connect(places.vertex.back(), leaf[static_cast<std::size_t>(h % leaves)], 12.5 * kGiga);
    }
  }

  std::vector<Rank> ring_order() const {
    std::vector<Rank> order;
    for (VertexId vertex : network.ring_order(spine, places.vertex))
      order.push_back(static_cast<Rank>(std::find(places.vertex.begin(), places.vertex.end(), vertex) -
                                        places.vertex.begin()));
    return order;
  }
};

// Eight GPUs on one NVLink switch; pairs of them share a PCIe switch with a NIC; the NICs of all boxes meet
// on a switch per rail.
struct GpuBoxes {
  Network network;
  RankPlaces places;
  std::vector<VertexId> nics;  // four per box

  explicit GpuBoxes(int boxes) {
    std::vector<VertexId> rails;
    for (int i = 0; i < 4; ++i) rails.push_back(network.add(fmt::format("rail{}", i), Role::through));
    for (int b = 0; b < boxes; ++b) {
      VertexId nvlink = network.add(fmt::format("b{}.nvlink", b), Role::through), pcie = 0;
      for (int g = 0; g < 8; ++g) {
        if (g % 2 == 0) {
          pcie = network.add(fmt::format("b{}.pcie{}", b, g / 2), Role::through);
          nics.push_back(network.add(fmt::format("b{}.nic{}", b, g / 2), Role::through));
          network.connect(pcie, nics.back(), 25 * kGiga);
          network.connect(nics.back(), rails[static_cast<std::size_t>(g / 2)], 25 * kGiga);
        }
        places.vertex.push_back(network.add(fmt::format("b{}.gpu{}", b, g), Role::end));
        network.connect(places.vertex.back(), nvlink, 300 * kGiga);
        network.connect(places.vertex.back(), pcie, 25 * kGiga);
      }
    }
    // Every GPU enters the wire by the NIC next to it, on whatever lane.
    places.nic = [this](Rank rank, RailId) { return nics[static_cast<std::size_t>(rank / 2)]; };
  }
};

Bytes load_between(const Network& network, const std::vector<Bytes>& load, VertexId a, VertexId b) {
  return load[network.link(a, b)];
}

}  // namespace

TEST(LinkLoad, ARingInBothDirectionsUsesEveryLinkOfAnS822lcBothWays) {
  S822lc box(1);
  Grid grid = Grid::from_hosts(hosts_of({4}));
  auto load = [&](std::vector<std::uint32_t> share) {
    return link_load(box.network, box.places,
                     plans_of(grid, choice_for(grid, Algorithm::ring, Algorithm::ring, std::move(share))),
                     kElements, 4);
  };
  constexpr Bytes kOneLap = kBuffer * 2 * 3 / 4;
  LinkId x_bus = box.network.link(box.cpus[0][0], box.cpus[0][1]);
  std::vector<Bytes> both = load({1, 1});
  expect_both_ways_alike(box.network, both);
  for (LinkId link = 0; link < box.network.links(); ++link)  // a lap passes the X-bus there and back
    EXPECT_EQ(both[link], link / 2 == x_bus / 2 ? kOneLap : kOneLap / 2) << box.network.name(link);
  std::vector<Bytes> one = load({1});
  LinkId nvlink = box.network.link(box.places.vertex[0], box.places.vertex[1]);
  EXPECT_EQ(one[nvlink], kOneLap);
  EXPECT_EQ(one[nvlink ^ 1], 0u);
}

TEST(LinkLoad, PackagesAsADimensionSpareTheXBusAThird) {
  S822lc box(1);
  Grid grid = test::blocks({2, 2}, 2);
  std::vector<Bytes> load =
      link_load(box.network, box.places,
                plans_of(grid, choice_for(grid, Algorithm::direct, Algorithm::direct)), kElements, 4);
  expect_both_ways_alike(box.network, load);
  const std::vector<VertexId>&gpu = box.places.vertex, &cpu = box.cpus[0];
  EXPECT_EQ(load_between(box.network, load, gpu[0], gpu[1]), kBuffer);
  EXPECT_EQ(load_between(box.network, load, gpu[2], cpu[1]), kBuffer / 2);
  EXPECT_EQ(load_between(box.network, load, cpu[0], cpu[1]), kBuffer);
}

TEST(LinkLoad, BothPortsOfEveryS822lcCarryHalfOfTheBufferBothWays) {
  constexpr int kHosts = 3;
  S822lc cluster(kHosts);
  Grid grid = Grid::from_hosts(hosts_of({4, 4, 4}));
  PlanChoice choice = choice_for(grid, Algorithm::ring, Algorithm::ring, {1, 1});
  std::vector<Bytes> load = link_load(cluster.network, cluster.places, plans_of(grid, choice), kElements, 4);
  expect_both_ways_alike(cluster.network, load);
  for (int h = 0; h < kHosts; ++h)
    for (int package = 0; package < 2; ++package) {
      VertexId nic = cluster.nics[static_cast<std::size_t>(h)][static_cast<std::size_t>(package)];
      VertexId cpu = cluster.cpus[static_cast<std::size_t>(h)][static_cast<std::size_t>(package)];
      EXPECT_EQ(load_between(cluster.network, load, cpu, nic), kBuffer / 2 * 2 * (kHosts - 1) / kHosts);
    }
}

TEST(LinkLoad, ARingInTreeOrderPassesEachLinkOfASwitchTreeOnceEachWay) {
  constexpr int kHosts = 8;
  SwitchTree tree(4, kHosts);
  std::vector<HostIndex> hosts = hosts_of(std::vector<int>(kHosts, 1));
  auto load = [&](std::span<const Rank> order) {
    Grid grid = Grid::from_levels(hosts, {{"hosts", hosts}}, order);
    return link_load(tree.network, tree.places,
                     plans_of(grid, choice_for(grid, Algorithm::direct, Algorithm::ring)), kElements, 4);
  };
  std::vector<Rank> order = tree.ring_order();
  EXPECT_EQ(order, (std::vector<Rank>{0, 4, 1, 5, 2, 6, 3, 7}));
  constexpr Bytes kOneLap = kBuffer * 2 * (kHosts - 1) / kHosts;
  std::vector<Bytes> good = load(order), bad = load({});
  expect_both_ways_alike(tree.network, good);
  for (Bytes bytes : good) EXPECT_EQ(bytes, kOneLap);
  EXPECT_NEAR(busiest(tree.network, bad), 2 * busiest(tree.network, good), 1e-9);
}

TEST(LinkLoad, EveryNicOfAGpuBoxCarriesItsQuarterBothWays) {
  constexpr int kBoxes = 3;
  GpuBoxes boxes(kBoxes);
  Grid grid = Grid::from_hosts(hosts_of({8, 8, 8}));
  for (Algorithm inside : {Algorithm::direct, Algorithm::ring}) {
    std::vector<Bytes> load =
        link_load(boxes.network, boxes.places,
                  plans_of(grid, choice_for(grid, inside, Algorithm::ring, {1, 1})), kElements, 4);
    expect_both_ways_alike(boxes.network, load);
    for (VertexId nic : boxes.nics) {
      Bytes out = 0;
      for (LinkId link = 0; link < boxes.network.links(); ++link)
        if (boxes.network.from(link) == nic && load[link] > out) out = load[link];
      EXPECT_EQ(out, kBuffer / 4 * 2 * (kBoxes - 1) / kBoxes);
    }
  }
}

TEST(LinkLoad, RoutesAreShortAndLeadThroughSwitchesOnly) {
  Network network;
  VertexId a = network.add("a", Role::end), b = network.add("b", Role::end), c = network.add("c", Role::end);
  VertexId slow = network.add("slow", Role::through), fast = network.add("fast", Role::through);
  network.connect(a, b, 1);
  network.connect(b, c, 1);
  for (VertexId end : {a, c}) network.connect(end, slow, 1), network.connect(end, fast, 2);
  std::vector<LinkId> route = network.route(a, c);
  ASSERT_EQ(route.size(), 2u);
  EXPECT_EQ(route[0], network.link(a, fast));
  EXPECT_EQ(network.route(a, a).size(), 0u);
  VertexId alone = network.add("alone", Role::end);
  EXPECT_THROW(network.route(a, alone), Error);
  EXPECT_THROW(network.ring_order(fast, std::vector<VertexId>{a, alone}), Error);
}

}  // namespace ddl
