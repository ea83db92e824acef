// Machines and choices to plan for.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "core/plan/planner.hpp"
#include "core/transport/shared_memory.hpp"

namespace ddl::test {

inline std::vector<HostIndex> hosts_of(const std::vector<int>& ranks_per_host) {
  std::vector<HostIndex> host_of_rank;
  for (std::size_t h = 0; h < ranks_per_host.size(); ++h)
    host_of_rank.insert(host_of_rank.end(), static_cast<std::size_t>(ranks_per_host[h]),
                        static_cast<HostIndex>(h));
  return host_of_rank;
}

inline std::vector<HostIndex> round_robin(int hosts, int ranks) {
  std::vector<HostIndex> host_of_rank;
  for (int r = 0; r < ranks; ++r) host_of_rank.push_back(r % hosts);
  return host_of_rank;
}

inline std::vector<Plan> plans_of(const Grid& grid, const PlanChoice& choice) {
  std::vector<Plan> plans;
  for (Rank r = 0; r < grid.ranks(); ++r) plans.push_back(make_plan(grid, r, choice));
  return plans;
}

/// `rest` for all dimensions but the first.
inline PlanChoice choice_for(const Grid& grid, Algorithm first, Algorithm rest,
                             std::vector<std::uint32_t> share = {1}) {
  PlanChoice choice;
  choice.algorithm.assign(static_cast<std::size_t>(grid.dimensions()), rest);
  choice.algorithm[0] = first;
  choice.share = std::move(share);
  choice.segment = 1 << 20;
  return choice;
}

/// Ranks on the leaves of a balanced grid, block order: extents from the inside out, `local` of them in a
/// host.
inline Grid blocks(const std::vector<Rank>& extents, std::size_t local) {
  std::vector<Dimension> dimensions;
  Rank stride = 1;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    dimensions.push_back(
        {fmt::format("d{}", d), extents[d], stride, d < local ? Fabric::local : Fabric::wire});
    stride *= extents[d];
  }
  return Grid::regular(std::move(dimensions));
}

/// What the local sends of a window stage: a block for each, with slack for other cuts.
inline Bytes blocks_of(const Plan& plan) {
  constexpr Bytes kSlack = 128;
  SliceTable table;
  table.compute(plan, plan.segment, 1);
  Bytes bytes = 0;
  for (const Step& step : plan.steps)
    if (step.verb == Verb::send && step.fabric == Fabric::local)
      bytes += 64 + round_up(table.of(step).count + kSlack, 64);
  return bytes * static_cast<Bytes>(plan.window);
}

}  // namespace ddl::test
