// The part of Operation that takes what has arrived for it.
#include <algorithm>
#include <utility>

#include "core/collective/operation.hpp"

namespace ddl {

// The open segment that a message belongs to; null: it is not open.
Operation::Run* Operation::run_of(const Header& header) {
  auto is_it = [&](const Run& run) { return run.open && run.segment == header.segment; };
  auto found = std::find_if(runs_.begin(), runs_.end(), is_it);
  return found == runs_.end() ? nullptr : &*found;
}

Operation::Taken Operation::take(const Header& header, const View& view) {
  if (header.segment >= segments_) return Taken::never;
  Run* run = run_of(header);
  if (!run) return header.segment >= segments_opened_ ? Taken::later : Taken::never;
  int expected = prepared_->plan.find_expected(header.tag, header.from);
  if (expected < 0) return Taken::never;
  Arrival& arrived = run->arrived[static_cast<std::size_t>(expected)];
  const Expected& message = prepared_->plan.expected[static_cast<std::size_t>(expected)];
  const Step& step = prepared_->plan.steps[message.step];
  Range range = range_of(*run, step);
  if (arrived == Arrival::complete || view.bytes() != bytes_on(message.fabric, range.count))
    return Taken::never;
  if (arrived == Arrival::being_placed && view.data() != at(*run, step.into, step.into_block, range.first))
    return Taken::never;
  if (view.is_elsewhere()) SharedMemoryTransport::offer_place(view, fetches_to(*run, step));
  run->views[static_cast<std::size_t>(expected)] = view;
  arrived = Arrival::complete;
  is_stirred_ = true;
  return Taken::yes;
}

// A finished slice from another host depends on all that this rank had to say about it, or it goes where this
// rank has nothing to say: nobody reads what is at its place any more, even where the step that copies it is
// not yet due. What came narrower is not what belongs there.
std::byte* Operation::place_for(const Header& header) {
  if (!wire_.is_exact()) return nullptr;
  const Plan& plan = prepared_->plan;
  Run* run = run_of(header);
  int expected = run ? plan.find_expected(header.tag, header.from) : -1;
  if (expected < 0) return nullptr;
  Arrival& arrived = run->arrived[static_cast<std::size_t>(expected)];
  if (arrived != Arrival::missing) return nullptr;
  const Step& step = plan.steps[plan.expected[static_cast<std::size_t>(expected)].step];
  if (step.verb != Verb::copy || step.is_token) return nullptr;
  Range range = range_of(*run, step);
  if (range.count * element_ != header.bytes || header.bytes == 0) return nullptr;
  arrived = Arrival::being_placed;
  return at(*run, step.into, step.into_block, range.first);
}

void Operation::leave_place(const Header& header) {
  Run* run = run_of(header);
  int expected = run ? prepared_->plan.find_expected(header.tag, header.from) : -1;
  if (expected < 0) return;
  Arrival& arrived = run->arrived[static_cast<std::size_t>(expected)];
  if (arrived == Arrival::being_placed) arrived = Arrival::missing;
}

void Operation::drop() {
  if (!is_open_) return;
  for (Run& run : runs_) {
    if (!run.open) continue;
    for (std::size_t i = 0; i < run.arrived.size(); ++i)
      if (run.arrived[i] == Arrival::complete) run.views[i].release();
    run.open = false;
  }
  segments_finished_ = segments_;
}

// Not of what is read from its sender, who may still be writing.
bool Operation::has_all_of(const Run& run, std::uint32_t expected) {
  return run.arrived[expected] == Arrival::complete && !run.views[expected].is_elsewhere();
}

void Operation::withdraw_places(Nanoseconds until) {
  for (const Run& run : runs_)
    for (std::size_t i = 0; run.open && i < run.arrived.size(); ++i)
      if (run.arrived[i] == Arrival::complete && run.views[i].is_elsewhere())
        SharedMemoryTransport::withdraw_place(run.views[i], until);
}

std::vector<Rank> Operation::waiting_for() const {
  std::vector<Rank> ranks;
  const Plan& plan = prepared_->plan;
  for (const Run& run : runs_) {
    if (!run.open) continue;
    for (std::size_t f = 0; f < plan.flows.size(); ++f) {
      if (run.counter[f] == plan.flows[f].count) continue;
      const Step& step = plan.steps[plan.flows[f].first + run.counter[f]];
      if (step.verb == Verb::send) continue;
      for (std::uint32_t i = 0; i < step.peers; ++i)
        if (!has_all_of(run, step.expected + i)) ranks.push_back(plan.peers[step.peer + i]);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace ddl
