// Machines, and what is planned for them besides all-reduces.
#pragma once

#include <vector>

#include "core/plan/task_planner.hpp"
#include "tests/core/plan/plans.hpp"

namespace ddl::test {

inline const std::vector<std::vector<HostIndex>> kMachines = {
    hosts_of({1}),    hosts_of({2}),          hosts_of({3}),     hosts_of({4}),       hosts_of({6}),
    hosts_of({1, 1}), hosts_of({1, 1, 1, 1}), hosts_of({2, 2}),  hosts_of({2, 1, 3}), hosts_of({2, 2, 2, 2}),
    hosts_of({4, 4}), hosts_of({1, 4, 2, 3}), round_robin(4, 8), round_robin(3, 7),   {2, 0, 1, 0, 2, 2}};

inline constexpr Kind kAll[] = {Kind::broadcast, Kind::reduce,  Kind::all_gather, Kind::reduce_scatter,
                                Kind::gather,    Kind::scatter, Kind::all_to_all};

inline std::vector<Plan> plans_of(const std::vector<HostIndex>& machine, const TaskChoice& choice) {
  Grid grid = Grid::from_hosts(machine);
  HostMap map(machine);
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < grid.ranks(); ++rank) plans.push_back(make_plan(grid, map, rank, choice));
  return plans;
}

template <class Body>
void each_task(Rank ranks, const Body& body) {
  for (Kind kind : kAll)
    for (Rank root = 0; root < (has_root(kind) ? ranks : 1); ++root) body(Task{kind, root});
}

}  // namespace ddl::test
