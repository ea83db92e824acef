#include "methods.hpp"

#include <fmt/format.h>

#include "core/plan/planner.hpp"
#include "isolated.hpp"
#include "mpi_peers.hpp"
#include "peers.hpp"
#include "replay.hpp"

namespace ddl::simulation {
namespace {

Outcome replay(const Cluster& cluster, const std::vector<Plan>& plans, Bytes bytes) {
  Platform platform(cluster);
  Replay replay(platform, plans, bytes);
  Outcome outcome;
  outcome.seconds = replay.run();
  outcome.wire_bytes = platform.wire_bytes();
  outcome.busiest_link_seconds = platform.busiest_link_seconds();
  outcome.messages = replay.messages();
  fmt::format_to_n(outcome.plan, sizeof outcome.plan - 1, "{}", plans[0].name);
  return outcome;
}

Outcome outcome_of(const Cluster& cluster, Method method, Bytes bytes, Bytes staging) {
  switch (method) {
    case Method::ours:
      return replay(cluster, our_plans(cluster, bytes, staging), bytes);
    case Method::flat_ring:
      return replay(cluster, flat_ring_plans(cluster, bytes), bytes);
    case Method::double_tree:
      return replay(cluster, double_tree_plans(cluster, bytes), bytes);
    case Method::open_mpi:
      return {.seconds = simulate_mpi(cluster, bytes, "ompi")};
    case Method::mvapich2:
      break;
  }
  return {.seconds = simulate_mpi(cluster, bytes, "mvapich2")};
}

}  // namespace

const char* name_of(Method method) {
  static constexpr const char* kNames[] = {"ours", "flat ring", "double tree", "Open MPI", "MVAPICH2"};
  return kNames[static_cast<int>(method)];
}

std::vector<Plan> our_plans(const Cluster& cluster, Bytes bytes, Bytes staging) {
  std::vector<HostIndex> host_of_rank;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) host_of_rank.push_back(cluster.host_of(rank));
  Grid grid = Grid::from_hosts(host_of_rank);
  PlanLimits limits;
  limits.rails = static_cast<LaneId>(cluster.rails);
  limits.staging = staging;
  PlanChoice choice = choose(grid, bytes, limits);
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) plans.push_back(make_plan(grid, rank, choice));
  return plans;
}

std::optional<Outcome> simulate(const Cluster& cluster, Method method, Bytes bytes, Bytes staging) {
  return run_isolated([&] { return outcome_of(cluster, method, bytes, staging); });
}

std::optional<Outcome> simulate(const Cluster& cluster, const std::vector<Plan>& plans, Bytes bytes) {
  return run_isolated([&] { return replay(cluster, plans, bytes); });
}

}  // namespace ddl::simulation
