#include "methods.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/plan/task_planner.hpp"
#include "isolated.hpp"
#include "mpi_peers.hpp"
#include "peers.hpp"
#include "replay.hpp"

namespace ddl::simulation {
namespace {

Outcome replay(const Cluster& cluster, const std::vector<Plan>& plans, Bytes bytes,
               const WireFormat& wire = {}) {
  Platform platform(cluster);
  Replay replay(platform, plans, bytes, wire);
  Outcome outcome;
  outcome.seconds = replay.run();
  outcome.wire_bytes = platform.wire_bytes();
  outcome.busiest_link_seconds = platform.busiest_link_seconds();
  outcome.messages = replay.messages();
  fmt::format_to_n(outcome.plan, sizeof outcome.plan - 1, "{}", plans[0].name);
  return outcome;
}

Outcome outcome_of(const Cluster& cluster, Method method, Kind kind, Bytes bytes, Bytes staging,
                   const std::string& between) {
  if (kind != Kind::all_reduce && (method == Method::flat_ring || method == Method::double_tree))
    throw Error("only all-reduces are simulated that way");
  switch (method) {
    case Method::ours:
      if (kind != Kind::all_reduce)
        return replay(cluster, our_plans(cluster, our_task_choice(cluster, kind, bytes, staging)), bytes);
      return replay(cluster, our_plans(cluster, our_choice(cluster, bytes, staging, between).choice), bytes);
    case Method::flat_ring:
      return replay(cluster, flat_ring_plans(cluster, bytes), bytes);
    case Method::double_tree:
      return replay(cluster, double_tree_plans(cluster, bytes), bytes);
    case Method::open_mpi:
      return {.seconds = simulate_mpi(cluster, kind, bytes, "ompi")};
    case Method::mvapich2:
      break;
  }
  return {.seconds = simulate_mpi(cluster, kind, bytes, "mvapich2")};
}

// What the replay has: links inside, no time for adding and copying, and switches that lose nothing.
Machine machine_of(const Cluster& cluster) {
  Machine machine;
  machine.local = {cluster.local_latency, cluster.message_cost, 1 / cluster.gpu_rate};
  machine.inside = Inside::links;
  machine.wire = {cluster.wire_latency, cluster.message_cost, 1 / cluster.rail_rate};
  machine.rail_overhead = machine.gamma = machine.wire_copy = 0;
  machine.incast = machine.turnover = 1;
  machine.rail_rate.assign(static_cast<std::size_t>(cluster.rails), cluster.rail_rate);
  return machine;
}

PlanLimits limits_of(const Cluster& cluster, Bytes staging) {
  PlanLimits limits;
  limits.rails = static_cast<RailId>(cluster.rails);
  limits.staging = staging;
  limits.machine = machine_of(cluster);
  return limits;
}

std::vector<HostIndex> hosts_of(const Cluster& cluster) {
  std::vector<HostIndex> host_of_rank;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) host_of_rank.push_back(cluster.host_of(rank));
  return host_of_rank;
}

}  // namespace

const char* name_of(Method method) {
  static constexpr const char* kNames[] = {"ours", "flat ring", "double tree", "Open MPI", "MVAPICH2"};
  return kNames[static_cast<int>(method)];
}

Grid grid_of(const Cluster& cluster) {
  const std::vector<HostIndex> host_of_rank = hosts_of(cluster);
  std::vector<std::int32_t> pair_of_rank;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) pair_of_rank.push_back(rank / 2);
  if (!cluster.pair_dimension) return Grid::from_hosts(host_of_rank);
  return Grid::from_levels(host_of_rank, {{"pair", pair_of_rank}, {"host", host_of_rank}});
}

std::vector<Candidate> our_candidates(const Cluster& cluster, Bytes bytes, Bytes staging,
                                      const WireFormat& wire) {
  return candidates(grid_of(cluster), size_class(bytes), limits_of(cluster, staging), wire);
}

Candidate our_choice(const Cluster& cluster, Bytes bytes, Bytes staging, const std::string& between,
                     const WireFormat& wire) {
  for (const Candidate& candidate : our_candidates(cluster, bytes, staging, wire))
    if (between.empty() || algorithm_name(candidate.choice.algorithm.back()) == between) return candidate;
  throw UsageError("no choice for " + cluster.name + " does '" + between + "' between hosts",
                   "there is nothing to simulate", "see --candidates for those there are");
}

Prediction our_prediction(const Cluster& cluster, const PlanChoice& choice, Bytes bytes) {
  return predict(grid_of(cluster), choice, bytes, machine_of(cluster));
}

std::vector<Plan> our_plans(const Cluster& cluster, const PlanChoice& choice) {
  Grid grid = grid_of(cluster);
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) plans.push_back(make_plan(grid, rank, choice));
  return plans;
}

TaskChoice our_task_choice(const Cluster& cluster, Kind kind, Bytes bytes, Bytes staging) {
  return choose_task(HostMap(hosts_of(cluster)), {kind, 0}, size_class(bytes), limits_of(cluster, staging));
}

std::vector<Plan> our_plans(const Cluster& cluster, const TaskChoice& choice) {
  const std::vector<HostIndex> hosts = hosts_of(cluster);
  const Grid grid = Grid::from_hosts(hosts);
  const HostMap map(hosts);
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) plans.push_back(make_plan(grid, map, rank, choice));
  return plans;
}

std::optional<Outcome> simulate(const Cluster& cluster, Method method, Bytes bytes, Bytes staging,
                                const std::string& between, Kind kind) {
  return run_isolated([&] { return outcome_of(cluster, method, kind, bytes, staging, between); });
}

std::optional<Outcome> simulate(const Cluster& cluster, const std::vector<Plan>& plans, Bytes bytes,
                                const WireFormat& wire) {
  return run_isolated([&] { return replay(cluster, plans, bytes, wire); });
}

}  // namespace ddl::simulation
