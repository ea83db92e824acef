#include "core/session/limits.hpp"

#include <algorithm>

#include "core/plan/cost.hpp"

namespace ddl {

PlanLimits limits_of(const JobMap& job_map) {
  Machine machine = machine_over(job_map.rail_gbit);
  machine.shared_cores = job_map.shared_cores;
  machine.crowded = std::find(job_map.crowded.begin(), job_map.crowded.end(), true) != job_map.crowded.end();
  return {static_cast<RailId>(std::max<std::size_t>(1, job_map.rails.size())),
          staging_of_a_call(job_map.staging),
          job_map.segment,
          machine,
          job_map.single_copy,
          job_map.slow_lines};
}

}  // namespace ddl
