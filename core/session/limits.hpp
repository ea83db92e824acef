#pragma once

#include "core/bootstrap/job_map.hpp"
#include "core/plan/choice.hpp"

namespace ddl {

/// Within which the plans of a job with that job map are made.
PlanLimits limits_of(const JobMap& job_map);

}  // namespace ddl
