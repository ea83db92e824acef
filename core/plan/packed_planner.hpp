// The planner of collectives whose blocks are so small that messages cost more than bytes: the first rank of
// a host collects what its mates have, and what passes between hosts is packed, many blocks in one message.
//
//   gather      up a k-nomial tree over the hosts (host_tree.hpp), each of which hands on its subtree's
//   blocks scatter     the other way around all-gather  Bruck's algorithm: in round k every host sends the
//   blocks it has, of at most 2^k hosts, to the
//               host 2^k before it; the last message of a host goes to all mates
//   all-to-all  Bruck's algorithm: what has to go d hosts on goes 2^k hosts on in round k, for each bit k of
//   d
//
// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", IEEE TPDS 8 (1997).
#pragma once

#include "core/plan/grid.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/task_choice.hpp"

namespace ddl {

/// For calls of one segment whose blocks are all as long. The choice counts by its task and radix, and by its
/// first rail. Its name, segment and window are the caller's.
Plan packed_plan(const Grid& grid, const HostMap& map, Rank rank, const TaskChoice& choice);

/// Blocks in the longest message within a host, and how many such messages its first rank has under way.
struct PackedStaging {
  Rank blocks = 0, messages = 0;
};
PackedStaging packed_staging(const HostMap& map, Kind kind);

/// Whether there is such a plan.
bool can_be_packed(const HostMap& map, Task task);

}  // namespace ddl
