#include "core/collective/operation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/clock.hpp"
#include "core/collective/credit.hpp"

namespace ddl {
namespace {

// Whether what a step makes is what the next one sends.
bool goes_on(const Step& landed, const Step& next) {
  return next.verb == Verb::send && next.slice == landed.slice && next.own == landed.into &&
         next.own_block == landed.into_block && next.blocks == landed.blocks;
}

}  // namespace

bool is_answered_by_reading(const Call& call, const Plan& plan, const Step& step) {
  if (!reads_in_place(plan) || step.fabric != Fabric::local) return false;
  if (call.pairwise ? count_of(call, step) != 0 : !step.is_token) return false;
  const Bytes reach = reach_of(call, step) * size_of(call.type);
  return reach <= plan.segment && is_read_in_place(plan, reach);
}

bool& is_engine_thread() {
  thread_local bool is_one = false;
  return is_one;
}

void Operation::bind(PreparedPlan& prepared, const Call& call, CommId comm, Seq seq, Rank me,
                     Completion* completion) {
  prepared_ = &prepared;
  completion_ = completion;
  call_ = call;
  comm_ = comm;
  seq_ = seq;
  me_ = me;
  fingerprint_ = fingerprint_of(call, prepared.choice.wire);
  is_open_ = false;
  const Bytes window = prepared.plan.segment * static_cast<Bytes>(prepared.plan.window);
  bytes_under_way_ = std::min(call.bytes(), window);
}

void Operation::open(bool streams, bool without_tokens) {
  const Plan& plan = prepared_->plan;
  without_tokens_ = without_tokens;
  cut(*prepared_, call_);
  is_open_ = is_stirred_ = true;
  store_ = prepared_->rails == 0 && streams ? Store::streamed : Store::cached;
  segments_opened_ = segments_finished_ = unfinished_ = 0;
  sent_on_wire_ = false;
  alone_senders_ = 0;
  rail_times_.assign(plan.lanes > 1 && completion_->is_observed() ? plan.lanes : 0, 0);
  dimension_times_.clear();
  std::size_t at_once = std::min<std::size_t>(static_cast<std::size_t>(plan.window), segments_);
  if (runs_.size() < at_once) runs_.resize(at_once);
  scratch_.of(at_once * plan.scratch * scratch_elements_ * element_);
  if (!wire_.is_exact()) narrowed_.of(at_once * narrowed_of_run_);
  for (std::size_t i = 0; i < at_once; ++i) open(runs_[i], segments_opened_++);
}

void Operation::skip_steps(std::size_t flow, std::uint32_t steps) {
  Run& run = runs_[0];
  for (std::size_t f = 0; f < flow; ++f) {
    const std::uint32_t all = prepared_->plan.flows[f].count;
    if (std::exchange(run.counter[f], all) != all) --run.flows_left;
  }
  if (flow < run.counter.size()) run.counter[flow] = steps;
}

void Operation::time_dimensions(int dimensions) {
  dimension_times_.assign(static_cast<std::size_t>(dimensions), 0);
  for (Run& run : runs_) run.since.assign(prepared_->plan.flows.size(), now());
}

void Operation::open(Run& run, std::uint32_t segment) {
  const Plan& plan = prepared_->plan;
  run.segment = segment;
  run.open = true;
  run.flows_left = static_cast<std::uint32_t>(plan.flows.size());
  run.counter.assign(plan.flows.size(), 0);
  if (without_tokens_ && plan.token_flow >= 0) {
    auto tokens = static_cast<std::size_t>(plan.token_flow);
    run.counter[tokens] = plan.flows[tokens].count;
    --run.flows_left;
  }
  run.views.resize(plan.expected.size());
  run.arrived.assign(plan.expected.size(), Arrival::missing);
  if (!dimension_times_.empty()) run.since.assign(plan.flows.size(), now());
}

bool Operation::is_oldest(const Run& run) const {
  return std::none_of(runs_.begin(), runs_.end(),
                      [&](const Run& other) { return other.open && other.segment < run.segment; });
}

// Stays stirred as long as it moves, and when it is held up by what makes no message.
bool Operation::advance(Sender& sender) {
  bool moved = false;
  is_stirred_ = false;
  for (Run& run : runs_) {
    if (!run.open) continue;
    moved |= advance(run, sender);
    if (run.flows_left > 0) continue;
    if (run.reading > 0) {
      is_stirred_ = true;
      continue;
    }
    ++segments_finished_;
    moved = true;
    run.open = false;
    if (segments_opened_ < segments_) open(run, segments_opened_++);
  }
  if (segments_finished_ == segments_ && sent_on_wire_) {
    sender.flush(prepared_->beyond, unfinished_);
    sent_on_wire_ = false;
  }
  is_stirred_ |= moved || (segments_finished_ == segments_ && unfinished_ > 0);
  return moved;
}

bool Operation::advance(Run& run, Sender& sender) {
  const Plan& plan = prepared_->plan;
  bool moved = false;
  for (std::size_t f = 0; f < plan.flows.size(); ++f) {
    const Flow& flow = plan.flows[f];
    std::uint32_t& counter = run.counter[f];
    if (counter == flow.count) continue;
    while (std::uint32_t done =
               run_steps(run, &plan.steps[flow.first + counter], flow.count - counter, sender)) {
      if (!dimension_times_.empty()) note_dimension_time(run.since[f], plan.steps[flow.first + counter]);
      counter += done;
      moved = true;
      if (counter == flow.count) break;
    }
    if (counter < flow.count) continue;
    --run.flows_left;
    if (!rail_times_.empty() && run.segment < static_cast<std::uint32_t>(plan.window)) note_rail_time(flow);
  }
  return moved;
}

// What is sent is only handed over by then; what has come tells.
void Operation::note_rail_time(const Flow& flow) {
  const Plan& plan = prepared_->plan;
  auto hears_wire = [&](const Step& step) {
    const auto first = plan.expected.begin() + step.expected;
    return step.verb != Verb::send && !step.is_token &&
           std::any_of(first, first + step.peers, [](const Expected& e) { return e.fabric == Fabric::wire; });
  };
  const Step* steps = &plan.steps[flow.first];
  const Step* wire = std::find_if(steps, steps + flow.count, hears_wire);
  if (wire != steps + flow.count && wire->rail < rail_times_.size())
    rail_times_[wire->rail] = now() - call_.began;
}

void Operation::note_dimension_time(Nanoseconds& since, const Step& step) {
  Nanoseconds before = std::exchange(since, now());
  dimension_times_[step.dimension] += since - before;
}

// Whether who sends in such a call has nothing else to copy.
bool Operation::only_sends() const {
  if (call_.pairwise) return call_.rooted != Rooted::no && call_.out_blocks.counts[me_] == 0;
  return call_.kind == Kind::broadcast || call_.kind == Kind::gather;
}

// An empty slice needs no message: both ends know that it is empty. Only a token is sent for its own sake.
bool Operation::has_message(const Run& run, const Step& step) const {
  if (without_tokens_ && call_.pairwise && Credit::stands_for(call_, prepared_->plan, step)) return false;
  if (is_answered_by_reading(call_, prepared_->plan, step)) return false;
  Range range = table(run)[step.slice];
  range.first += run.segment * segment_elements_;
  return step.is_token || within(range, reach_of(call_, step)) > 0;
}

// Runs the first of the `left` steps that remain of a flow, or the first two at once; returns how many.
std::uint32_t Operation::run_steps(Run& run, const Step* step, std::uint32_t left, Sender& sender) {
  if (!has_message(run, *step)) return 1;
  if (step->verb == Verb::send) {
    bool sent = send_step(run, *step, sender);
    is_stirred_ |= !sent;
    return sent;
  }
  if (!all_arrived(run, *step)) return 0;
  if (call_.own && is_engine_thread()) {  // see OwnReduction
    is_stirred_ = true;
    return 0;
  }
  if (step->after_sends && unfinished_ > 0) {
    is_stirred_ = true;
    return 0;
  }
  const bool is_elsewhere = step->peers == 1 && run.views[step->expected].is_elsewhere();
  if (is_elsewhere && !fetch_step(run, *step, sender)) return 0;
  const Step* next = left > 1 && goes_on(*step, step[1]) ? step + 1 : nullptr;
  Outgoing message{};
  std::byte* block = next ? claim_forward(run, *step, *next, sender, message) : nullptr;
  const bool is_narrow = next && narrows(wire_, next->fabric), leaves = next && next->fabric == Fabric::wire;
  std::byte* travels = !is_narrow ? nullptr : leaves ? travels_at(run, *next) : block;
  if (!step->is_token && range_of(run, *step).count > 0)
    land_step(run, *step, is_narrow ? nullptr : block, travels, sender);
  for (std::uint32_t i = 0; i < step->peers; ++i) run.views[step->expected + i].release();
  if (block) return sender.post(message), 2;
  return travels && send_narrowed(run, *next, sender) ? 2 : 1;
}

// Where it belongs; unless the own share is there, which it is to be reduced with.
std::byte* Operation::fetches_to(Run& run, const Step& step) {
  const Range range = range_of(run, step);
  std::byte* into = at(run, step.into, step.into_block, range.first);
  const bool is_taken = step.verb == Verb::reduce && at(run, step.own, step.own_block, range.first) == into;
  return is_taken ? run.fetched.of(range.count * element_) : into;
}

// What is read where its sender has it; see Plan::most_staged. False: its sender is still writing a part of
// it, or it cannot be read, and it is as if nothing had come.
bool Operation::fetch_step(Run& run, const Step& step, Sender& sender) {
  struct Fetch {
    Sender& sender;
    View& view;
    std::byte* into;
    SharedMemoryTransport::Fetched fetched = {};
  } fetch{sender, run.views[step.expected], fetches_to(run, step)};
  sender.work(fetch.view.bytes(), [&fetch] { fetch.fetched = fetch.sender.fetch(fetch.view, fetch.into); });
  if (fetch.fetched == SharedMemoryTransport::Fetched::not_yet) {
    is_stirred_ = true;
    return false;
  }
  const bool is_there = fetch.fetched == SharedMemoryTransport::Fetched::all;
  fetch.view.release();
  fetch.view = View(fetch.into, fetch.view.bytes(), nullptr, nullptr, nullptr);
  if (!is_there) run.arrived[step.expected] = Arrival::missing;
  return is_there;
}

bool Operation::send_step(Run& run, const Step& step, Sender& sender) {
  if (narrows(wire_, step.fabric)) return narrow_step(run, step, sender);
  Range range = range_of(run, step);
  std::span<const std::byte> payload;
  if (!step.is_token) payload = {at(run, step.own, step.own_block, range.first), range.count * element_};
  bool is_large =
      payload.size() > View::kInline && (store_ == Store::streamed || payload.size() >= Sender::kLongWork);
  if (step.fabric == Fabric::local && is_read_in_place(prepared_->plan, payload.size()))
    return sender.send_single_copy(sending_of(run, step), payload,
                                   payload.size() >= (only_sends() ? kLeastJoint : kLeastJointOfMany),
                                   unfinished_);
  if (is_large && step.fabric == Fabric::local) return send_staged(run, step, payload, sender);
  sent_on_wire_ |= step.fabric == Fabric::wire;
  return sender.send(sending_of(run, step), payload, step.own == Source::scratch ? run.reading : unfinished_);
}

// Made where it is read; what fits the message itself is copied from here.
bool Operation::narrow_step(Run& run, const Step& step, Sender& sender) {
  const Range range = range_of(run, step);
  const Bytes bytes = bytes_on(step.fabric, range.count);
  std::array<std::byte, View::kInline> few;
  Outgoing message{};
  std::byte* to = step.fabric == Fabric::wire ? travels_at(run, step) : few.data();
  const bool is_staged = step.fabric == Fabric::local && bytes > few.size();
  if (is_staged) to = sender.claim(sending_of(run, step), bytes, message);
  if (!to) return false;
  struct Narrow {
    const WireFormat& wire;
    Store store;
    std::byte* to;
    const std::byte* from;
    Elements count;
  } one{wire_, store_, to, at(run, step.own, step.own_block, range.first), range.count};
  sender.work(range.count * element_, [&one] { stage(one.wire, one.to, one.from, one.count, one.store); });
  if (is_staged) return sender.post(message), true;
  if (step.fabric == Fabric::wire) return send_narrowed(run, step, sender);
  return sender.send(sending_of(run, step), {to, bytes}, unfinished_);
}

bool Operation::send_narrowed(Run& run, const Step& step, Sender& sender) {
  sent_on_wire_ = true;
  return sender.send(sending_of(run, step),
                     {travels_at(run, step), bytes_on(step.fabric, range_of(run, step).count)}, run.reading);
}

std::byte* Operation::travels_at(const Run& run, const Step& step) {
  auto number = static_cast<std::size_t>(&step - prepared_->plan.steps.data());
  return narrowed_.get() + place_of(run) * narrowed_of_run_ + travels_[number];
}

bool Operation::send_staged(const Run& run, const Step& step, std::span<const std::byte> payload,
                            Sender& sender) {
  Outgoing message{};
  std::byte* block = sender.claim(sending_of(run, step), payload.size(), message);
  if (!block) return false;
  struct Copy {
    BlockCopy& by;
    std::byte* to;
    std::span<const std::byte> from;
    BlockCopy::From source;
  } copy{sender.block_copy(), block, payload,
         store_ == Store::streamed ? BlockCopy::From::memory : BlockCopy::From::caches};
  sender.work(payload.size(),
              [&copy] { copy.by.copy(copy.to, copy.from.data(), copy.from.size(), copy.source); });
  sender.post(message);
  return true;
}

// A result that goes on to the ranks of this host is made in the block they read, if that is free: it would
// otherwise be written to the output and copied from there.
// If it goes back to the one rank of this host that it came from, that is the block it came in.
std::byte* Operation::claim_forward(Run& run, const Step& landed, const Step& next, Sender& sender,
                                    Outgoing& message) {
  if (next.fabric != Fabric::local) return nullptr;
  Bytes bytes = bytes_on(next.fabric, range_of(run, next).count);
  if (bytes <= View::kInline) return nullptr;
  Sending sending = sending_of(run, next);
  const Plan& plan = prepared_->plan;
  if (landed.peers == 1 && next.peers == 1 && plan.peers[landed.peer] == plan.peers[next.peer]) {
    View& asked = run.views[landed.expected];
    if (std::byte* answer = sender.claim_answer(sending, asked, message)) {
      asked.give_up();
      return answer;
    }
  }
  return sender.claim(sending, bytes, message);
}

void Operation::land_step(const Run& run, const Step& step, std::byte* forward, std::byte* travels,
                          Sender& sender) {
  constexpr std::size_t kFew = 64;  // more sources than that pay an allocation
  std::array<const void*, kFew> few;
  std::vector<const void*> many;
  bool reduces = step.verb == Verb::reduce || step.peers == 0;  // keeps the own share, at least
  std::size_t n_sources = step.peers + (reduces ? 1 : 0);
  if (n_sources > kFew) many.resize(n_sources);
  std::span<const void*> sources(n_sources > kFew ? many.data() : few.data(), n_sources);
  Range range = range_of(run, step);
  for (std::uint32_t i = 0; i < step.peers; ++i)
    sources[reduces && i >= step.own_rank ? i + 1 : i] = run.views[step.expected + i].data();
  if (reduces) sources[step.own_rank] = at(run, step.own, step.own_block, range.first);
  std::byte* out = at(run, step.into, step.into_block, range.first);
  ReduceCopy reduce_copy{call_.type, call_.op, sources, out, forward, range.count, store_, call_.own};
  const bool only_goes_on = forward && step.into == Source::scratch;  // see Source
  if (only_goes_on && step.verb == Verb::reduce && step.peers > 0 && wire_.is_exact())
    reduce_copy.out = nullptr;
  Narrowing narrowing{wire_, {}, step.rounds, travels};
  std::array<bool, kFew> few_narrow;
  std::unique_ptr<bool[]> many_narrow;
  if (!wire_.is_exact()) {
    if (n_sources > kFew) many_narrow = std::make_unique<bool[]>(n_sources);
    bool* is_narrow = many_narrow ? many_narrow.get() : few_narrow.data();
    std::fill_n(is_narrow, n_sources, false);
    for (std::uint32_t i = 0; i < step.peers; ++i)
      is_narrow[reduces && i >= step.own_rank ? i + 1 : i] =
          narrows(wire_, prepared_->plan.expected[step.expected + i].fabric);
    narrowing.is_narrow = {is_narrow, n_sources};
    reduce_copy.narrowing = &narrowing;
  }
  const Bytes work =
      call_.own ? Sender::kLongWork : range.count * element_;  // it is not ours to hold the lock
  sender.work(work, [&reduce_copy] { apply(reduce_copy); });
}

Sending Operation::sending_of(const Run& run, const Step& step) const {
  Bytes bytes = bytes_on(step.fabric, range_of(run, step).count);
  return {*this,
          step,
          {comm_, step.tag, seq_, run.segment, fingerprint_, me_, static_cast<std::uint32_t>(bytes), 0},
          is_oldest(run)};
}

// Element `first` of a block, as range_of() counts them.
std::byte* Operation::at(const Run& run, Source source, std::uint32_t block, Elements first) const {
  if (source == Source::scratch) {
    Elements slot = place_of(run) * Elements{prepared_->plan.scratch} + block;
    return scratch_.get() + (slot * scratch_elements_ + first - run.segment * segment_elements_) * element_;
  }
  return block_at(call_, source, block) + first * element_;
}

// Relative to the block; what a short block has of it, or what all of several blocks have.
Range Operation::range_of(const Run& run, const Step& step) const {
  Range range = table(run).of(step);
  range.first += run.segment * segment_elements_;
  if (call_.has_layout()) range.count = within(range, count_of(call_, step));
  return range;
}

bool Operation::all_arrived(const Run& run, const Step& step) const {
  for (std::uint32_t i = 0; i < step.peers; ++i)
    if (run.arrived[step.expected + i] != Arrival::complete) return false;
  return true;
}

}  // namespace ddl
