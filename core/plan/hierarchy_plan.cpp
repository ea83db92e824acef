#include "core/plan/hierarchy_plan.hpp"

#include <fmt/format.h>

namespace ddl {
namespace {

constexpr Bytes kAligned = 16;  // NCCL moves that much at once, where all addresses allow it

// What a segment goes through: there and back again.
struct Stages {
  std::size_t dimensions;
  std::size_t count() const { return 2 * dimensions - 1; }
  std::size_t dimension_of(std::size_t stage) const {
    return stage < dimensions ? stage : 2 * (dimensions - 1) - stage;
  }
  HierarchyVerb verb_of(std::size_t stage) const {
    if (stage + 1 == dimensions) return HierarchyVerb::all_reduce;
    return stage < dimensions ? HierarchyVerb::reduce_scatter : HierarchyVerb::all_gather;
  }
};

// This rank's share of a segment after reduce-scatter in all dimensions before `dimension`.
Range share_before(const HierarchyLayout& layout, Range segment, std::size_t dimension) {
  for (std::size_t d = 0; d < dimension; ++d)
    segment = part_of(segment, static_cast<std::uint64_t>(layout[d].place),
                      static_cast<std::uint64_t>(layout[d].extent));
  return segment;
}

HierarchyStep step_of(const HierarchyLayout& layout, Range segment, std::size_t stage) {
  const Stages stages{layout.size()};
  HierarchyStep step;
  step.verb = stages.verb_of(stage);
  step.dimension = stages.dimension_of(stage);
  step.whole = share_before(layout, segment, step.dimension);
  step.mine =
      step.verb == HierarchyVerb::all_reduce ? step.whole : share_before(layout, segment, step.dimension + 1);
  step.reads_input = stage == 0;
  return step;
}

// In the last dimension a rank has one of so many shares of a segment.
std::uint64_t shares_in(const HierarchyLayout& layout) {
  std::uint64_t shares = 1;
  for (std::size_t d = 0; d + 1 < layout.size(); ++d) shares *= static_cast<std::uint64_t>(layout[d].extent);
  return shares;
}

// As many elements as all of them can have an aligned share of; of nothing shared any number.
Elements unit_of(const HierarchyLayout& layout, Bytes element_bytes) {
  return layout.size() == 1 ? 1 : kAligned / element_bytes * shares_in(layout);
}

// The rails overlap copies with the wire within a call, which must be long enough for that; NCCL needs no
// more than that the next segment is there in time.
std::uint64_t segments_of(const HierarchyLayout& layout, HierarchyRoute route, Bytes bytes,
                          const HierarchyCut& cut) {
  const Bytes segment = route == HierarchyRoute::rails ? cut.segment * shares_in(layout) : cut.segment;
  return std::min(divide_up(bytes, segment), cut.most_segments);
}

}  // namespace

HierarchyCut HierarchyCut::with_segment(Bytes segment) {
  HierarchyCut cut;
  if (segment == 0) return cut;
  cut.segment = segment;
  cut.least = std::min(cut.least, segment);
  return cut;
}

bool rails_can_be_last(const Grid& grid) {
  for (int d = grid.dimensions(); d-- > 0;) {
    const Dimension& last = grid.dimension(d);
    if (last.extent > 1) return last.fabric == Fabric::wire && !last.mixed;
  }
  return false;
}

std::string why_no_hierarchy(const Grid& grid, bool by_rails) {
  int joining = 0;
  bool mixed = false;
  for (int d = 0; d < grid.dimensions(); ++d) {
    const Dimension& dimension = grid.dimension(d);
    joining += dimension.extent > 1;
    mixed |= dimension.mixed;
    if (dimension.smallest != 0 && dimension.smallest != dimension.extent)
      return fmt::format("groups of {} to {} ranks in one dimension", dimension.smallest, dimension.extent);
  }
  if (joining > kMostHierarchyDimensions)
    return fmt::format("{} dimensions, more than {}", joining, kMostHierarchyDimensions);
  if (joining >= 2 || (joining == 1 && by_rails)) return {};
  if (mixed) return "one dimension joins all ranks";
  return grid.spans_hosts() ? "every host has one rank" : "all ranks are on one host";
}

HierarchyLayout hierarchy_layout(const Grid& grid, Rank rank) {
  HierarchyLayout layout;
  Path path;
  for (int d = 0; d < grid.dimensions(); ++d) {
    Group group = grid.group_of(rank, d, path);
    auto place = static_cast<Rank>(group.me);
    path.push_back({place, Owners::all});
    if (group.members.size() > 1)
      layout.push_back({static_cast<Rank>(group.members.size()), group.members.front(), place});
  }
  return layout;
}

bool is_worth_a_plan(const HierarchyLayout& layout, Elements count, Bytes element_bytes,
                     const HierarchyCut& cut) {
  return count >= unit_of(layout, element_bytes) && count * element_bytes >= cut.least;
}

// Slot t holds stage s of segment t - s: what comes first in a slot feeds the network.
HierarchyPlan hierarchy_plan(const HierarchyLayout& layout, HierarchyRoute route, Elements count,
                             Bytes element_bytes, const HierarchyCut& cut) {
  HierarchyPlan plan;
  plan.tail = {0, count};
  if (route == HierarchyRoute::whole || !is_worth_a_plan(layout, count, element_bytes, cut)) return plan;
  const Elements unit = unit_of(layout, element_bytes), units = count / unit;
  const std::uint64_t segments = std::min(segments_of(layout, route, count * element_bytes, cut), units);
  const Stages stages{layout.size()};
  std::vector<std::size_t> last(segments);  // step of each segment
  for (std::uint64_t slot = 0; slot < segments + stages.count() - 1; ++slot)
    for (std::size_t stage = 0; stage < stages.count() && stage <= slot; ++stage) {
      const std::uint64_t k = slot - stage;
      if (k >= segments) continue;
      Range in_units = part_of({0, units}, k, segments);
      HierarchyStep step = step_of(layout, {in_units.first * unit, in_units.count * unit}, stage);
      step.on_rails = route == HierarchyRoute::rails && step.verb == HierarchyVerb::all_reduce;
      if (stage > 0) step.after = last[k];
      last[k] = plan.steps.size();
      plan.steps.push_back(step);
    }
  plan.tail = {units * unit, count - units * unit};
  return plan;
}

std::string name_of(const HierarchyLayout& layout) {
  std::string name;
  for (const HierarchyDimension& dimension : layout)
    name += fmt::format("{}{}", name.empty() ? "" : "x", dimension.extent);
  return name;
}

std::string name_of(const HierarchyLayout& layout, HierarchyRoute route) {
  constexpr const char* kOn[] = {"NCCL, as it was called", "NCCL", "NCCL and rails"};
  const bool alone = route == HierarchyRoute::rails && layout.size() == 1;
  return fmt::format("{} on {}", name_of(layout), alone ? "rails" : kOn[static_cast<std::size_t>(route)]);
}

}  // namespace ddl
