#include "core/collective/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/reduce/reduce.hpp"

namespace ddl {

Fingerprint fingerprint_of(const Call& call) {
  std::uint64_t x =
      call.count * 1024 + static_cast<std::uint64_t>(call.type) * 32 + static_cast<std::uint64_t>(call.op);
  x *= 0x9e3779b97f4a7c15ull;
  return static_cast<Fingerprint>(x ^ (x >> 32));
}

std::string describe(const Call& call) {
  return fmt::format("all-reduce of {} {}, {}", call.count, name_of(call.type), name_of(call.op));
}

// A loop makes the same call again and again: what was cut for the last one fits the next.
void Operation::cut(const PreparedPlan& prepared, const Call& call) {
  const Plan& plan = prepared.plan;
  Bytes element = size_of(call.type);
  if (prepared_ == &prepared && call_.count == call.count && element_ == element) return;
  element_ = element;
  segment_elements_ = std::max<Elements>(1, plan.segment / element_);
  segments_ = static_cast<std::uint32_t>(divide_up(call.count, segment_elements_));
  if (plan.flows.empty()) segments_ = 0;  // alone
  if (segments_ > 1) full_.compute(plan, segment_elements_, element_);
  if (segments_ > 0) tail_.compute(plan, call.count - (segments_ - 1) * segment_elements_, element_);
}

void Operation::bind(PreparedPlan& prepared, const Call& call, CommId comm, Seq seq, Rank me) {
  cut(prepared, call);
  const Plan& plan = prepared.plan;
  prepared_ = &prepared;
  call_ = call;
  comm_ = comm;
  seq_ = seq;
  me_ = me;
  fingerprint_ = fingerprint_of(call);
  segments_opened_ = segments_finished_ = unfinished_ = 0;
  sent_on_wire_ = false;
  runs_.resize(static_cast<std::size_t>(plan.window));
  for (Run& run : runs_) {
    run.open = false;
    if (segments_opened_ < segments_) open(run, segments_opened_++);
  }
}

void Operation::open(Run& run, std::uint32_t segment) {
  const Plan& plan = prepared_->plan;
  run.segment = segment;
  run.open = true;
  run.flows_left = static_cast<std::uint32_t>(plan.flows.size());
  run.counter.assign(plan.flows.size(), 0);
  run.views.resize(plan.expected.size());
  run.arrived.assign(plan.expected.size(), 0);
}

bool Operation::advance(Outlet& outlet) {
  bool moved = false;
  for (Run& run : runs_) {
    if (!run.open) continue;
    moved |= advance(run, outlet);
    if (run.flows_left > 0) continue;
    ++segments_finished_;
    run.open = false;
    if (segments_opened_ < segments_) open(run, segments_opened_++);
  }
  if (segments_finished_ == segments_ && sent_on_wire_) {
    outlet.flush(unfinished_);
    sent_on_wire_ = false;
  }
  return moved;
}

bool Operation::advance(Run& run, Outlet& outlet) {
  const Plan& plan = prepared_->plan;
  bool moved = false;
  for (std::size_t f = 0; f < plan.flows.size(); ++f) {
    const Flow& flow = plan.flows[f];
    std::uint32_t& counter = run.counter[f];
    if (counter == flow.count) continue;
    while (counter < flow.count && run_step(run, plan.steps[flow.first + counter], outlet)) {
      ++counter;
      moved = true;
    }
    if (counter == flow.count) --run.flows_left;
  }
  return moved;
}

// True when the step is done. An empty slice needs no message: both ends know that it is empty.
bool Operation::run_step(Run& run, const Step& step, Outlet& outlet) {
  Range range = table(run)[step.slice];
  if (range.count == 0) return true;
  Bytes offset = (run.segment * segment_elements_ + range.first) * element_;
  Bytes bytes = range.count * element_;
  if (step.verb == Verb::send) {
    const auto* from =
        static_cast<const std::byte*>(step.own == Source::input ? call_.in : call_.out) + offset;
    Header header{comm_, step.tag, seq_, run.segment, fingerprint_, me_, static_cast<std::uint32_t>(bytes),
                  0};
    sent_on_wire_ |= step.fabric == Fabric::wire;
    return outlet.send(step, header, {from, bytes}, unfinished_);
  }
  if (!all_arrived(run, step) || (step.after_sends && unfinished_ > 0)) return false;
  if (step.verb == Verb::reduce) {
    reduce_step(run, step, {run.segment * segment_elements_ + range.first, range.count});
  } else {
    std::memcpy(static_cast<std::byte*>(call_.out) + offset, run.views[step.expected].data(), bytes);
  }
  for (std::uint32_t i = 0; i < step.peers; ++i) run.views[step.expected + i].release();
  return true;
}

void Operation::reduce_step(Run& run, const Step& step, Range range) {
  constexpr std::size_t kFew = 64;  // more sources than that pay an allocation
  std::array<const void*, kFew> few;
  std::vector<const void*> many;
  std::size_t sources = step.peers + 1;
  if (sources > kFew) many.resize(sources);
  const void** source = sources > kFew ? many.data() : few.data();
  const auto* own = static_cast<const std::byte*>(step.own == Source::input ? call_.in : call_.out);
  for (std::uint32_t i = 0; i < step.peers; ++i)
    source[i < step.own_rank ? i : i + 1] = run.views[step.expected + i].data();
  source[step.own_rank] = own + range.first * element_;
  reduce(call_.type, call_.op, static_cast<std::byte*>(call_.out) + range.first * element_, {source, sources},
         range.count);
}

bool Operation::all_arrived(const Run& run, const Step& step) const {
  for (std::uint32_t i = 0; i < step.peers; ++i)
    if (!run.arrived[step.expected + i]) return false;
  return true;
}

Operation::Taken Operation::take(const Header& header, const View& view) {
  if (header.segment >= segments_) return Taken::never;
  for (Run& run : runs_) {
    if (!run.open || run.segment != header.segment) continue;
    int expected = prepared_->plan.find_expected(header.tag, header.from);
    if (expected < 0 || run.arrived[static_cast<std::size_t>(expected)]) return Taken::never;
    run.views[static_cast<std::size_t>(expected)] = view;
    run.arrived[static_cast<std::size_t>(expected)] = 1;
    return Taken::yes;
  }
  return header.segment >= segments_opened_ ? Taken::later : Taken::never;
}

Bytes Operation::wire_bytes(LaneId lane) const {
  if (segments_ == 0) return 0;
  Elements elements = wire_elements(prepared_->plan, tail_, lane);
  if (segments_ > 1) elements += wire_elements(prepared_->plan, full_, lane) * (segments_ - 1);
  return elements * element_;
}

void Operation::drop() {
  for (Run& run : runs_) {
    if (!run.open) continue;
    for (std::size_t i = 0; i < run.arrived.size(); ++i)
      if (run.arrived[i]) run.views[i].release();
    run.open = false;
  }
  segments_finished_ = segments_;
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
        if (!run.arrived[step.expected + i]) ranks.push_back(plan.peers[step.peer + i]);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace ddl
