// Which rails all hosts have in common, and which are missed: the part of the job map about the wire. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/bootstrap/job_map.hpp"

namespace ddl {

/// Fills job_map.lanes, lane_gbit, rail_of_lane and notes from the endpoint infos, whose hosts are known.
/// Returns why nothing can travel between the hosts, "" when something can.
std::string find_lanes(const std::vector<EndpointInfo>& endpoints, JobMap& job_map);

}  // namespace ddl
