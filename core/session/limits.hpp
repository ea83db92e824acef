#pragma once

#include "core/bootstrap/card.hpp"
#include "core/plan/choice.hpp"

namespace ddl {

/// Within which the plans of a job with that census are made.
PlanLimits limits_of(const Census& census);

}  // namespace ddl
