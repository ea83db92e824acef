// Handover: how what is only moved passes from one rank to another of its host, staged or read where it is.
//
// Pure, and the same on all ranks.
#pragma once

#include <vector>

#include "core/plan/task_choice.hpp"

namespace ddl {

/// The ways worth a thought: `staged`, and by single copies where these may be better, the one to begin with
/// first. `staged` has one at least.
std::vector<TaskCandidate> with_single_copies(const HostMap& map, Task task, Bytes bytes,
                                              const PlanLimits& limits, std::vector<TaskCandidate> staged);

}  // namespace ddl
