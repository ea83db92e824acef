#include "core/plan/plan.hpp"

#include <algorithm>
#include <bit>

#include "core/base/partition.hpp"

namespace ddl {
namespace {

std::uint64_t place(Tag tag, Rank from) {
  std::uint64_t x = (tag ^ (static_cast<std::uint64_t>(from) << 40)) * 0x9e3779b97f4a7c15ull;
  return x ^ (x >> 29);
}

}  // namespace

void Plan::seal() {
  std::erase_if(flows, [](const Flow& flow) { return flow.count == 0; });
  expected.clear();
  local_sends = 0;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Step& step = steps[s];
    if (step.verb == Verb::send) {
      step.expected = step.fabric == Fabric::local ? local_sends++ : 0;
      continue;
    }
    step.expected = static_cast<std::uint32_t>(expected.size());
    for (std::uint32_t i = 0; i < step.peers; ++i)
      expected.push_back({step.tag, peers[step.peer + i], static_cast<std::uint32_t>(s)});
  }
  token_flow = -1;
  for (std::size_t f = 0; f < flows.size(); ++f) {
    auto of_flow = std::span(steps).subspan(flows[f].first, flows[f].count);
    if (std::all_of(of_flow.begin(), of_flow.end(), [](const Step& step) { return step.is_token; }))
      token_flow = static_cast<int>(f);
  }
  index_.assign(std::bit_ceil(expected.size() * 2 + 2), -1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::uint64_t at = place(expected[i].tag, expected[i].from) & (index_.size() - 1);
    while (index_[at] >= 0) at = (at + 1) & (index_.size() - 1);
    index_[at] = static_cast<std::int32_t>(i);
  }
}

int Plan::find_expected(Tag tag, Rank from) const {
  std::uint64_t at = place(tag, from) & (index_.size() - 1);
  for (; index_[at] >= 0; at = (at + 1) & (index_.size() - 1)) {
    const Expected& candidate = expected[static_cast<std::size_t>(index_[at])];
    if (candidate.tag == tag && candidate.from == from) return index_[at];
  }
  return -1;
}

Bytes Plan::bytes() const {
  auto of = [](const auto& vector) { return vector.capacity() * sizeof(vector[0]); };
  return sizeof(Plan) + name.capacity() + of(slices) + of(peers) + of(steps) + of(flows) + of(expected) +
         of(index_);
}

void SliceTable::compute(const Plan& plan, Elements count, Bytes element_size, Cuts cuts) {
  ranges_.resize(plan.slices.size());
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    const Slice& slice = plan.slices[i];
    Range parent = slice.parent == kWholeSegment ? Range{0, count} : ranges_[slice.parent];
    Range begin{parent.first + parent.count, 0}, end = begin;
    Elements grain = kCacheLine / element_size;
    auto part = [&](std::uint32_t index) {
      if (cuts == Cuts::at_lines_where_enough) return part_of(parent, index, slice.parts, grain);
      Range lines = part_of({0, divide_up(parent.count, grain)}, index, slice.parts);
      return Range{parent.first + std::min(lines.first * grain, parent.count), 0};
    };
    if (slice.first < slice.parts) begin = part(slice.first);
    if (slice.last < slice.parts) end = part(slice.last);
    ranges_[i] = {begin.first, end.first - begin.first};
  }
}

}  // namespace ddl
