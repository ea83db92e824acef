#include "variants.hpp"

#include <algorithm>
#include <numeric>

namespace ddl::simulation {
namespace {

// Lane i of the choice becomes lanes 2i and 2i + 1 on its rail, weighted as given. Odd lanes run the other
// way.
PlanChoice doubled(const PlanChoice& choice, std::uint32_t first, std::uint32_t second) {
  PlanChoice twice = choice;
  twice.share.clear();
  twice.rail.clear();
  for (std::size_t lane = 0; lane < choice.share.size(); ++lane) {
    RailId rail = choice.rail.empty() ? static_cast<RailId>(lane) : choice.rail[lane];
    twice.share.insert(twice.share.end(), {choice.share[lane] * first, choice.share[lane] * second});
    twice.rail.insert(twice.rail.end(), {rail, rail});
  }
  return twice;
}

PlanChoice hosts_first(const Grid& grid, PlanChoice choice) {
  std::vector<int> order(static_cast<std::size_t>(grid.dimensions()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<int> reversed(order.rbegin(), order.rend());
  for (std::size_t lane = 0; lane < choice.share.size(); ++lane)
    choice.order.push_back(lane % 2 == 0 ? order : reversed);
  return choice;
}

}  // namespace

std::vector<Variant> lane_variants(const Grid& grid, const PlanChoice& choice) {
  std::vector<Variant> variants{{"as chosen", choice}};
  if (!grid.is_regular() || std::any_of(choice.algorithm.begin(), choice.algorithm.end(), is_final))
    return variants;
  variants.push_back({"both directions", doubled(choice, 1, 1)});
  variants.push_back({"1/2 hosts first", hosts_first(grid, doubled(choice, 1, 1))});
  variants.push_back({"1/8 hosts first", hosts_first(grid, doubled(choice, 7, 1))});
  return variants;
}

}  // namespace ddl::simulation
