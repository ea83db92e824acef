// The part of Operation that cuts the buffers of a call into segments and slices.
#include <algorithm>

#include "core/base/partition.hpp"
#include "core/collective/operation.hpp"

namespace ddl {

void add(std::vector<WireBytes>& to, std::span<const WireBytes> more) {
  if (to.size() < more.size()) to.resize(more.size());
  for (std::size_t rail = 0; rail < more.size(); ++rail) {
    to[rail].sent += more[rail].sent;
    to[rail].in_memory += more[rail].in_memory;
  }
}

// A loop makes the same call again and again: what was cut for the last one fits the next.
void Operation::cut(const PreparedPlan& prepared, const Call& call) {
  const Plan& plan = prepared.plan;
  Bytes element = size_of(call.type);
  if (cut_for_ == prepared.serial && cut_count_ == call.count && element_ == element &&
      cut_lengths_ == call.lengths && cut_pairwise_ == call.pairwise)
    return call.pairwise ? count_sent() : void();
  cut_for_ = prepared.serial;
  cut_count_ = call.count;
  cut_lengths_ = call.lengths;
  cut_pairwise_ = call.pairwise;
  element_ = element;
  wire_ = prepared.choice.wire;
  segment_elements_ = std::max<Elements>(1, plan.segment / element_);
  segments_ = static_cast<std::uint32_t>(divide_up(call.count, segment_elements_));
  scratch_elements_ = std::min(segment_elements_, call.count);
  const Cuts cuts = wire_.has_scales() ? Cuts::at_lines : Cuts::at_lines_where_enough;
  if (segments_ > 1) full_.compute(plan, segment_elements_, element_, cuts);
  // Of a pairwise call nobody knows where the others' last segment ends.
  const Elements tail = call.pairwise ? segment_elements_ : call.count - (segments_ - 1) * segment_elements_;
  if (segments_ > 0) tail_.compute(plan, tail, element_, cuts);
  count_sent();
  if (!wire_.is_exact()) place_narrowed(plan);
}

void Operation::count_sent() {
  wire_bytes_.assign(prepared_->rails, {});
  narrowed_sent_ = {};
  for (const Step& step : prepared_->plan.steps) {
    const bool counts = step.fabric == Fabric::wire || narrows(wire_, step.fabric);
    if (step.verb != Verb::send || !counts || segments_ == 0) continue;
    const Elements length = count_of(call_, step), whole = segments_ - 1;  // segments
    const Elements reached = std::min<Elements>(length / segment_elements_, whole);
    if (reached > 0) count_sent(step, full_[step.slice].count, reached);
    const Range last = reached < whole ? full_[step.slice] : tail_[step.slice];
    count_sent(step, within(last, length - reached * segment_elements_), 1);
  }
}

// That many elements so many times.
void Operation::count_sent(const Step& step, Elements elements, Elements times) {
  times *= step.peers;
  elements *= step.blocks;
  const WireBytes more{bytes_on(step.fabric, elements) * times, elements * element_ * times};
  auto add_to = [&](WireBytes& all) { all.sent += more.sent, all.in_memory += more.in_memory; };
  if (step.fabric == Fabric::wire) add_to(wire_bytes_[step.rail]);
  if (narrows(wire_, step.fabric)) add_to(narrowed_sent_);
}

// What a run sends between hosts side by side.
void Operation::place_narrowed(const Plan& plan) {
  travels_.assign(plan.steps.size(), 0);
  narrowed_of_run_ = 0;
  for (std::size_t s = 0; s < plan.steps.size() && segments_ > 0; ++s) {
    const Step& step = plan.steps[s];
    if (step.verb != Verb::send || step.fabric != Fabric::wire) continue;
    travels_[s] = narrowed_of_run_;
    Elements most = tail_[step.slice].count;
    if (segments_ > 1) most = std::max(most, full_[step.slice].count);
    narrowed_of_run_ += round_up(wire_.bytes(most), kCacheLine);
  }
}

}  // namespace ddl
