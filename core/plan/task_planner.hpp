// The planner of all collectives but all-reduce: who moves which block to whom. Data goes from where it is to
// where it is needed, over at most one agent per host, so that a link between hosts carries nothing twice for
// the sake of ranks that share a host.
//
//   broadcast       down a tree over the hosts (host_tree.hpp), to an agent per host -> its mates; large ones
//                   over three hosts and more are cut into a piece per host, which passes it on to the others
//                   (scatter, then all-gather), or go along a chain of hosts
//   reduce          the other way around: folded on every host by an agent and up the tree; large ones piece
//                   by piece by all ranks of a host and along a chain of hosts
//   all-gather      every block to an agent per other host, which passes it on to its mates
//   reduce-scatter  every block is folded on each host by an agent and sent to its owner
//   gather, scatter, all-to-all, send   straight from one to the other
//
// Small blocks may be packed instead (packed_planner.hpp).
//
// Folds go in the order of ranks and hosts: the same bits from run to run.
//
// Left out: rings and doubling for all-gather and reduce-scatter.
#pragma once

#include "core/plan/grid.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/task_choice.hpp"

namespace ddl {

/// `map` and `grid` describe the same ranks. Time and memory grow with the number of ranks.
Plan make_plan(const Grid& grid, const HostMap& map, Rank rank, const TaskChoice& choice);

}  // namespace ddl
