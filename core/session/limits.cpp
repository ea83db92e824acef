#include "core/session/limits.hpp"

#include <algorithm>

#include "core/plan/cost.hpp"

namespace ddl {

PlanLimits limits_of(const Census& census) {
  Machine machine = machine_over(census.lane_gbit);
  machine.shared_cores = census.shared_cores;
  return {static_cast<LaneId>(std::max<std::size_t>(1, census.lanes.size())),
          staging_of_a_call(census.staging), census.segment, machine};
}

}  // namespace ddl
