// The planner: grid + choice -> Plan of one rank. Pure: every rank computes its own plan from what all ranks
// know, and the plans fit together (checked symbolically in the tests). Time and memory grow with the sum of
// the dimensions, not with the number of ranks.
#pragma once

#include <string>

#include "core/plan/choice.hpp"
#include "core/plan/grid.hpp"
#include "core/plan/plan.hpp"

namespace ddl {

/// Error as by check_choice().
Plan make_plan(const Grid& grid, Rank rank, const PlanChoice& choice);

/// Error when the choice does not suit the grid: an algorithm or order too few, a final algorithm before the
/// last dimension, no share.
void check_choice(const Grid& grid, const PlanChoice& choice);

/// The choice in words: "2 local direct x 4 hosts ring, 2 lanes".
std::string describe(const Grid& grid, const PlanChoice& choice);

}  // namespace ddl
