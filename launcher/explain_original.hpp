// What the original library's own all-reduce would take, roughly, for --explain to put beside ours: the
// algorithms that Open MPI is known to take by default, recursive doubling for short buffers and a ring of
// all ranks for long ones, by our cost model. What it really takes --compare measures. Pure.
#pragma once

#include <string>

#include "core/plan/choice.hpp"
#include "core/plan/grid.hpp"

namespace ddl {

struct OriginalEstimate {
  std::string algorithm;  // "recursive doubling", "ring"
  double seconds = 0;
};

/// Of ranks on these hosts, all in one dimension.
OriginalEstimate estimate_original(const std::vector<HostIndex>& hosts, Bytes bytes,
                                   const PlanLimits& limits);

}  // namespace ddl
