// What a training step of a network takes on a cluster: --step.
#pragma once

#include <string>

#include "cluster.hpp"
#include "core/base/types.hpp"
#include "core/plan/wire_rule.hpp"
#include "step.hpp"

namespace ddl::simulation {

struct StepOptions {
  std::string model;  // a list as ddl-bench --replay takes it
  double compute_ms = -1;
  StepRule rule;           // its fusion follows from `lazy`
  Bytes lazy = 0;          // DDL_LAZY_BYTES
  bool whole = false;      // all gradients are one, at the end
  bool predicted = false;  // by the cost model, instead of replayed
};

/// Prints the all-reduces of a step, each with its time, and what the step takes. `between` counts where the
/// first choice would send too many messages to be simulated. UsageError where there is no such list.
void print_step(const Cluster& cluster, const StepOptions& options, Bytes staging,
                const std::string& between);

}  // namespace ddl::simulation
