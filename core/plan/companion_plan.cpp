#include "core/plan/companion_plan.hpp"

#include <fmt/format.h>

namespace ddl {
namespace {

using Verb = CompanionStep::Verb;

constexpr Bytes kAligned = 16;  // NCCL moves that much at once, where all addresses allow it

// What a segment goes through: there and back again.
struct Stages {
  std::size_t dimensions;
  std::size_t count() const { return 2 * dimensions - 1; }
  std::size_t dimension_of(std::size_t stage) const {
    return stage < dimensions ? stage : 2 * (dimensions - 1) - stage;
  }
  Verb verb_of(std::size_t stage) const {
    if (stage + 1 == dimensions) return Verb::all_reduce;
    return stage < dimensions ? Verb::reduce_scatter : Verb::all_gather;
  }
};

// This rank's share of a segment after reduce-scatter in all dimensions before `dimension`.
Range share_before(const CompanionLayout& layout, Range segment, std::size_t dimension) {
  for (std::size_t d = 0; d < dimension; ++d)
    segment = part_of(segment, static_cast<std::uint64_t>(layout[d].place),
                      static_cast<std::uint64_t>(layout[d].extent));
  return segment;
}

CompanionStep step_of(const CompanionLayout& layout, Range segment, std::size_t stage) {
  const Stages stages{layout.size()};
  CompanionStep step;
  step.verb = stages.verb_of(stage);
  step.dimension = stages.dimension_of(stage);
  step.whole = share_before(layout, segment, step.dimension);
  step.mine = step.verb == Verb::all_reduce ? step.whole : share_before(layout, segment, step.dimension + 1);
  step.reads_input = stage == 0;
  return step;
}

// As many elements as every rank of all dimensions but the last can have an aligned share of.
Elements unit_of(const CompanionLayout& layout, Bytes element_bytes) {
  Elements unit = kAligned / element_bytes;
  for (std::size_t d = 0; d + 1 < layout.size(); ++d) unit *= static_cast<Elements>(layout[d].extent);
  return unit;
}

}  // namespace

CompanionCut CompanionCut::with_segment(Bytes segment) {
  CompanionCut cut;
  if (segment == 0) return cut;
  cut.segment = segment;
  cut.least = std::min(cut.least, segment);
  return cut;
}

std::string why_no_companion(const Grid& grid) {
  int joining = 0;
  for (int d = 0; d < grid.dimensions(); ++d) {
    const Dimension& dimension = grid.dimension(d);
    joining += dimension.extent > 1;
    if (dimension.smallest != 0 && dimension.smallest != dimension.extent)
      return fmt::format("groups of {} to {} ranks in one dimension", dimension.smallest, dimension.extent);
  }
  if (joining >= 2) return {};
  return grid.spans_hosts() ? "every host has one rank" : "all ranks are on one host";
}

CompanionLayout companion_layout(const Grid& grid, Rank rank) {
  CompanionLayout layout;
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

// Slot t holds stage s of segment t - s: what comes first in a slot feeds the network.
CompanionPlan companion_plan(const CompanionLayout& layout, Elements count, Bytes element_bytes,
                             const CompanionCut& cut) {
  CompanionPlan plan;
  plan.tail = {0, count};
  const Elements unit = unit_of(layout, element_bytes), units = count / unit;
  if (layout.size() < 2 || units == 0 || count * element_bytes < cut.least) return plan;
  std::uint64_t segments = divide_up(count * element_bytes, cut.segment);
  segments = std::min({segments, cut.most_segments, units});
  const Stages stages{layout.size()};
  std::vector<std::size_t> last(segments);  // step of each segment
  for (std::uint64_t slot = 0; slot < segments + stages.count() - 1; ++slot)
    for (std::size_t stage = 0; stage < stages.count() && stage <= slot; ++stage) {
      const std::uint64_t k = slot - stage;
      if (k >= segments) continue;
      Range in_units = part_of({0, units}, k, segments);
      plan.steps.push_back(step_of(layout, {in_units.first * unit, in_units.count * unit}, stage));
      if (stage > 0) plan.steps.back().after = last[k];
      last[k] = plan.steps.size() - 1;
    }
  plan.tail = {units * unit, count - units * unit};
  return plan;
}

std::string name_of(const CompanionLayout& layout) {
  std::string name;
  for (const CompanionDimension& dimension : layout)
    name += fmt::format("{}{}", name.empty() ? "" : "x", dimension.extent);
  return name;
}

}  // namespace ddl
