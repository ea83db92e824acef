// What must hold in every simulation, tried on clusters small enough for a second.
#include <gtest/gtest.h>

#include <cmath>

#include "core/plan/check.hpp"
#include "isolated.hpp"
#include "methods.hpp"
#include "peers.hpp"
#include "replay.hpp"
#include "tests/support/wire_elements.hpp"
#include "variants.hpp"

namespace ddl::simulation {
namespace {

constexpr Bytes kStaging = 16 << 20;

std::vector<Cluster> small_clusters() {
  return {with_hosts(find_cluster("64x4"), 2), with_hosts(find_cluster("64x4"), 5),
          with_hosts(find_cluster("64x8"), 3)};
}

// Bytes that the plans hand to one rail of one host, over all segments.
double planned_bytes(const Cluster& cluster, const std::vector<Plan>& plans, Bytes bytes, HostIndex host,
                     RailId rail) {
  Elements count = bytes / 4, segment = plans[0].segment / 4, elements = 0;
  for (Rank rank = host * cluster.gpus; rank < (host + 1) * cluster.gpus; ++rank)
    for (Elements first = 0; first < count; first += segment) {
      const Plan& plan = plans[static_cast<std::size_t>(rank)];
      SliceTable table;
      table.compute(plan, std::min(segment, count - first), 4);
      elements += test::wire_elements(plan, table, rail);
    }
  return static_cast<double>(elements * 4);
}

// The largest difference, over all rails, between what SimGrid's links carried and what the plans say.
double largest_difference(const Cluster& cluster, const std::vector<Plan>& plans, Bytes bytes) {
  Platform platform(cluster);
  Replay(platform, plans, bytes).run();
  double largest = 0;
  for (HostIndex host = 0; host < cluster.hosts; ++host)
    for (int rail = 0; rail < cluster.rails; ++rail) {
      double carried =
          platform.bytes_on("rail:" + std::to_string(host) + "." + std::to_string(rail) + ":out");
      double planned = planned_bytes(cluster, plans, bytes, host, static_cast<RailId>(rail));
      largest = std::max({largest, std::abs(carried - planned), planned > 0 ? 0.0 : 1.0});
    }
  return largest;
}

}  // namespace

TEST(Simulation, BroadcastsAndReducesComeToTheirEndAndNobodyBeatsTheLimit) {
  for (const Cluster& cluster : small_clusters())
    for (Kind kind : {Kind::broadcast, Kind::reduce})
      for (Bytes bytes : {Bytes{64}, Bytes{1} << 20, Bytes{8'000'004}})
        for (Method method : {Method::ours, Method::open_mpi, Method::mvapich2}) {
          SCOPED_TRACE(cluster.name + " " + name_of(method) + " " + std::to_string(bytes));
          std::optional<Outcome> outcome = simulate(cluster, method, bytes, kStaging, "", kind);
          ASSERT_TRUE(outcome);
          EXPECT_GE(outcome->seconds, 0.98 * bandwidth_limit(cluster, bytes, kind));
        }
}

TEST(Simulation, ABroadcastOverManyHostsGrowsWithTheirLogarithm) {
  for (Method method : {Method::ours, Method::open_mpi, Method::mvapich2}) {
    auto seconds = [&](Rank hosts) {
      const Cluster cluster = with_gpus(with_hosts(find_cluster("64x4"), hosts), 1);
      return simulate(cluster, method, 64, 16 << 20, "", Kind::broadcast).value().seconds;
    };
    EXPECT_LT(seconds(512), 2 * seconds(64)) << name_of(method);
  }
}

TEST(Simulation, NobodyBeatsTheLimit) {
  for (const Cluster& cluster : small_clusters())
    for (Bytes bytes : {Bytes{4096}, Bytes{1} << 20, Bytes{8'000'004}})
      for (Method method : kMethods) {
        SCOPED_TRACE(cluster.name + " " + name_of(method) + " " + std::to_string(bytes));
        std::optional<Outcome> outcome = simulate(cluster, method, bytes, kStaging);
        ASSERT_TRUE(outcome);
        EXPECT_GE(outcome->seconds, bandwidth_limit(cluster, bytes));
        EXPECT_GE(outcome->seconds, outcome->busiest_link_seconds);
      }
}

TEST(Simulation, EachRailCarriesWhatThePlansSay) {
  for (const Cluster& cluster : small_clusters())
    for (Bytes bytes : {Bytes{1} << 20, Bytes{8'000'004}}) {
      SCOPED_TRACE(cluster.name);
      std::vector<Plan> plans = our_plans(cluster, our_candidates(cluster, bytes, 1 << 20)[0].choice);
      EXPECT_EQ(run_isolated([&] { return largest_difference(cluster, plans, bytes); }), 0.0);
    }
}

TEST(Simulation, DimensionsBeatTheFlatRingWhereStepsCount) {
  // Around 32 GPUs a buffer of 1 MiB takes 62 steps, over 2 x 2 x 8 of them at most 18.
  Cluster cluster = with_hosts(find_cluster("64x4"), 8);
  std::optional<Outcome> ours = simulate(cluster, Method::ours, 1 << 20, kStaging);
  std::optional<Outcome> ring = simulate(cluster, Method::flat_ring, 1 << 20, kStaging);
  ASSERT_TRUE(ours && ring);
  EXPECT_LT(ours->seconds, ring->seconds);
}

TEST(Simulation, ARingOfTwoTakesWhatPaperSays) {
  Cluster cluster = with_hosts(find_cluster("64x8"), 2);
  cluster.gpus = 1;
  Bytes bytes = 8 << 20;
  double step =
      cluster.message_cost + cluster.wire_latency + static_cast<double>(bytes) / 2 / cluster.rail_rate;
  std::optional<Outcome> ring = simulate(cluster, Method::flat_ring, bytes, kStaging);
  ASSERT_TRUE(ring);
  EXPECT_NEAR(ring->seconds, 2 * step, 1e-9);
  EXPECT_EQ(ring->wire_bytes, 2.0 * static_cast<double>(bytes));
}

TEST(Simulation, TwoMessagesShareALink) {
  // Both GPUs of both hosts send half of their data to the other host at the same time, through one rail.
  Cluster cluster = with_hosts(find_cluster("64x8"), 2);
  cluster.gpus = 2;
  Bytes bytes = 8 << 20;
  std::optional<Outcome> ours =
      simulate(cluster, our_plans(cluster, our_candidates(cluster, bytes, 64 << 20)[0].choice), bytes);
  ASSERT_TRUE(ours);
  EXPECT_GE(ours->seconds, static_cast<double>(bytes) / cluster.rail_rate);
  EXPECT_LT(ours->seconds, 3 * static_cast<double>(bytes) / cluster.rail_rate);
}

TEST(Simulation, TheModelsOfPeersReduceEverythingOnce) {
  for (const Cluster& cluster : small_clusters()) {
    SCOPED_TRACE(cluster.name);
    EXPECT_EQ(check_plans(flat_ring_plans(cluster, 400), 100, 4).problem, "");
    EXPECT_EQ(check_plans(double_tree_plans(cluster, 400), 100, 4).problem, "");
  }
}

TEST(Simulation, LanesOfOtherOrdersReduceEverythingOnce) {
  Cluster cluster = with_hosts(find_cluster("64x4"), 3);
  cluster.pair_dimension = true;
  std::vector<Variant> variants =
      lane_variants(grid_of(cluster), our_choice(cluster, 64 << 20, kStaging, "ring").choice);
  ASSERT_EQ(variants.size(), 4u);
  for (const Variant& variant : variants)
    EXPECT_EQ(check_plans(our_plans(cluster, variant.choice), 333, 4).problem, "") << variant.name;
}

TEST(Simulation, TheModelPutsAChoiceFirstThatIsHardlySlowerThanAnyOther) {
  // 8 GPUs with a port each behind one NIC: a funnel into one of them would take twice the best.
  Cluster cluster = with_hosts(find_cluster("64x8"), 4);
  for (Bytes bytes : {Bytes{4096}, Bytes{16} << 10, Bytes{1} << 20}) {
    double first = 0;
    for (const Candidate& candidate : our_candidates(cluster, bytes, kStaging)) {
      std::optional<Outcome> outcome = simulate(cluster, our_plans(cluster, candidate.choice), bytes);
      ASSERT_TRUE(outcome);
      if (first == 0) first = outcome->seconds;
      EXPECT_LT(first, 1.15 * outcome->seconds) << outcome->plan << ", " << bytes;
    }
  }
}

TEST(Simulation, HardlyAHostIsInnerInBothTrees) {
  for (int hosts : {2, 3, 5, 48, 64}) {
    std::vector<TreeNode> tree = balanced_tree(hosts);
    int roots = 0, both = 0;
    for (int host = 0; host < hosts; ++host) {
      const TreeNode &first = tree[static_cast<std::size_t>(host)],
                     &second = tree[static_cast<std::size_t>((host + hosts - 1) % hosts)];
      roots += first.parent < 0;
      both += !first.children.empty() && !second.children.empty();
      EXPECT_LE(first.children.size(), 2u);
    }
    EXPECT_EQ(roots, 1);
    EXPECT_LE(both, 1 + hosts / 8) << hosts;
  }
}

TEST(Simulation, PlansThatDoNotFitEndWithAnError) {
  Cluster cluster = small_clusters()[0];
  std::vector<Plan> plans = flat_ring_plans(cluster, 4096);
  for (Step& step : plans[3].steps)
    if (step.verb == Verb::send) step.peers = 0;  // rank 3 sends nothing
  testing::internal::CaptureStderr();
  EXPECT_FALSE(simulate(cluster, plans, 4096));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("wait for ever"), std::string::npos);
}

}  // namespace ddl::simulation
