// The planner: grid + size -> Plan of one rank. Pure: every rank computes its own plan from what all ranks
// know, and the plans fit together (checked symbolically in the tests).
#pragma once

#include <vector>

#include "core/plan/grid.hpp"
#include "core/plan/plan.hpp"

namespace ddl {

/// How one dimension does its verbs.
enum class Algorithm : std::uint8_t {
  direct,  // reduce-scatter and all-gather, everybody with everybody: one step each; right inside a host
  ring,  // reduce-scatter and all-gather around a ring: each link carries each byte once; right between hosts
  exchange,  // all-reduce in one step: everybody sends everything to everybody; right for tiny messages
};

/// Everything a plan depends on. Equal on all ranks but for `rank` itself.
struct PlanChoice {
  std::vector<Algorithm> algorithm;  // per dimension; `exchange` only for the last one
  LaneId lanes = 1;                  // rings at once, each bound to a rail; odd ones run the other way around
  Bytes segment = 0;
  int window = 4;
};

/// What is known about the machine when a plan is chosen; equal on all ranks.
struct PlanLimits {
  LaneId rails = 1;
  Bytes staging = 0;  // shared memory of the communicator: window × segment stays below it
  Bytes segment = 0;  // asked for by the user, 0: free choice
};

/// Largest buffer of the class that `bytes` falls in: plans are made and kept per class.
Bytes size_class(Bytes bytes);

/// The choice for a buffer of that many bytes. Equal on all ranks because the arguments are.
PlanChoice choose(const Grid& grid, Bytes bytes, const PlanLimits& limits);

/// Staging that a communicator of this grid can use, and needs at the very least.
Bytes wanted_staging(const Grid& grid, const PlanLimits& limits);
Bytes least_staging(const Grid& grid, LaneId rails);

Plan make_plan(const Grid& grid, Rank rank, const PlanChoice& choice);

}  // namespace ddl
