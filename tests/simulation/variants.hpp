// Other ways to lay the lanes of a choice: what candidates() does not propose, to see whether it should.
#pragma once

#include <string>
#include <vector>

#include "core/plan/choice.hpp"

namespace ddl::simulation {

struct Variant {
  std::string name;
  PlanChoice choice;
};

/// The choice itself first; then two lanes on each rail, one of them with its rings the other way around;
/// then such pairs of lanes of which the second reduces between hosts first, with a half and an eighth of the
/// buffer. The grid must be regular, and the choice without a final algorithm, which no dimension can follow
/// (else the choice alone).
std::vector<Variant> lane_variants(const Grid& grid, const PlanChoice& choice);

}  // namespace ddl::simulation
