// Which rails all hosts have in common, and which are missed: the part of the job map about the wire. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/bootstrap/job_map.hpp"

namespace ddl {

/// Fills job_map.rails, rail_gbit, interface_of_rail and notes from the endpoint infos, whose hosts are
/// known. Returns why nothing can travel between the hosts, "" when something can.
std::string find_rails(const std::vector<EndpointInfo>& endpoints, JobMap& job_map);

}  // namespace ddl
