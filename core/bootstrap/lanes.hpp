// Which rails all hosts have in common, and which are missed: the part of the census about the wire. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/bootstrap/card.hpp"

namespace ddl {

/// Fills census.lanes, lane_gbit, rail_of_lane and notes from the cards, whose hosts are known. Returns why
/// nothing can travel between the hosts, "" when something can.
std::string find_lanes(const std::vector<Card>& cards, Census& census);

}  // namespace ddl
