// One cell of the table: a cluster, a way to all-reduce, a size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/task_choice.hpp"

namespace ddl::simulation {

enum class Method : std::uint8_t { ours, flat_ring, double_tree, open_mpi, mvapich2 };
inline constexpr Method kMethods[] = {Method::ours, Method::flat_ring, Method::double_tree, Method::open_mpi,
                                      Method::mvapich2};
const char* name_of(Method method);

struct Outcome {
  double seconds = 0;
  double wire_bytes = 0;            // handed from host to host; 0 where it was not counted
  double busiest_link_seconds = 0;  // what the most loaded link needs for its bytes alone; 0: not counted
  std::uint64_t messages = 0;
  char plan[160] = "";  // ours: its name
};

/// The GPUs of a host and the hosts, as the engine takes them by itself; with Cluster::pair_dimension pairs,
/// halves and hosts, as for `-mode b:2x2x64`.
Grid grid_of(const Cluster& cluster);
/// What the engine would choose from on that cluster, with that much staging memory per rank; the cost model
/// knows the numbers of the cluster. The first one is what it would take.
std::vector<Candidate> our_candidates(const Cluster& cluster, Bytes bytes, Bytes staging,
                                      const WireFormat& wire = {});
/// The first of them that does `between` between the hosts ("ring", ...); "": the very first. UsageError when
/// there is none.
Candidate our_choice(const Cluster& cluster, Bytes bytes, Bytes staging, const std::string& between,
                     const WireFormat& wire = {});
/// What the cost model says of it for exactly that many bytes; candidates have what it says of their size
/// class.
Prediction our_prediction(const Cluster& cluster, const PlanChoice& choice, Bytes bytes);
/// The plans of all ranks for a choice.
std::vector<Plan> our_plans(const Cluster& cluster, const PlanChoice& choice);

/// What the engine takes for another kind, from or to rank 0, and its plans.
TaskChoice our_task_choice(const Cluster& cluster, Kind kind, Bytes bytes, Bytes staging);
std::vector<Plan> our_plans(const Cluster& cluster, const TaskChoice& choice);

/// nullopt when the simulation failed; why is then on stderr. Runs in a process of its own. `between` as in
/// our_choice; of another kind than all-reduce there are ours, Open MPI's and MVAPICH2's.
std::optional<Outcome> simulate(const Cluster& cluster, Method method, Bytes bytes, Bytes staging,
                                const std::string& between = "", Kind kind = Kind::all_reduce);
/// The same for given plans, whose elements travel between hosts like that.
std::optional<Outcome> simulate(const Cluster& cluster, const std::vector<Plan>& plans, Bytes bytes,
                                const WireFormat& wire = {});

}  // namespace ddl::simulation
