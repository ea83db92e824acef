#include "core/collective/brief_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/collective/credit.hpp"
#include "core/collective/operation.hpp"
#include "core/collective/reduce_copy.hpp"

namespace ddl {

namespace {

// One step reduces, and nothing is sent of its result.
bool reduces_at_last(const Call& call, const Plan& plan) {
  int reducing = 0;
  for (const auto& flow : plan.flows)
    for (std::uint32_t i = 0; i < flow.count; ++i) {
      const Step& step = plan.steps[flow.first + i];
      if (step.verb != Verb::reduce || reach_of(call, step) == 0) continue;
      if (++reducing > 1 || i + 1 < flow.count) return false;
    }
  return true;
}

// From here on some rank may take part in what another reads, see Operation::send_step().
Bytes least_joint(const Call& call) {
  const bool is_one_way =
      call.rooted == Rooted::gather || call.kind == Kind::broadcast || call.kind == Kind::gather;
  return is_one_way ? kLeastJoint : kLeastJointOfMany;
}

// What may come early is bounded by tokens or, up to that size, by credit. A call without tokens may be
// longer, but not so long that others should have the lock meanwhile, nor may many ranks' blocks be (2 ranks,
// as an operation and at once, us: all-to-all of 32 and 64 KiB 3.5 and 2.9, 5.7 and 5.0; reduce-scatter 3.2
// and 2.4, 5.5 and 4.2; MPI_Gatherv of 32 KiB 4.0 and 3.4; 4 ranks on two cores, 32 KiB: 25.6 and 23.5, 22.4
// and 20.6, 17.8 and 12.3).
Bytes most_at_once(const Plan& plan, Rank ranks) {
  constexpr Bytes kMostTogether = 4 * Sender::kLongWork, kSmall = 16 << 10;
  const Bytes most = plan.token_flow < 0 ? Sender::kLongWork : Credit::kMostBytes;
  return std::clamp(kMostTogether / static_cast<Bytes>(ranks), kSmall, most);
}

}  // namespace

bool BriefCall::is_possible(const Call& call, const PreparedPlan& plan, Rank ranks) {
  const Bytes bytes = call.bytes();
  const bool is_small = ranks == 1 || bytes <= most_at_once(plan.plan, ranks);  // who is alone just copies
  const bool is_read = is_read_in_place(plan.plan, bytes) && bytes < least_joint(call);
  return (plan.is_one_shot || (plan.is_brief && (is_small || is_read))) &&
         (!call.own || reduces_at_last(call, plan.plan)) && ranks <= kMostRanks && call.count > 0 &&
         call.count <= plan.plan.segment / size_of(call.type);
}

void BriefCall::make(const Call& call, PreparedPlan& prepared, CommId comm, Rank me,
                     SharedMemoryTransport& local) {
  call_ = call;
  plan_ = &prepared;
  use_ = nullptr;
  steps_.clear();
  peers_.clear();
  pairs_to_.clear();
  pairs_from_.clear();
  parts_.clear();
  const Plan& plan = prepared.plan;
  steps_.reserve(plan.steps.size());
  peers_.reserve(plan.peers.size());
  call_.fingerprint = fingerprint_of(call);
  const Fingerprint fingerprint = fingerprint_of(call_, prepared.choice.wire);
  note_ = OwnCalls::note_of(call, fingerprint, prepared.choice.wire);
  for (std::uint32_t f = 0; f < plan.flows.size(); ++f) {
    if (static_cast<int>(f) == plan.token_flow) continue;
    for (std::uint32_t i = 0; i < plan.flows[f].count; ++i) {
      const Step& step = plan.steps[plan.flows[f].first + i];
      const Part part = part_of(call, plan, step);
      if (call.pairwise) parts_.push_back(part);
      if (part == Part::of_credit) (step.verb == Verb::copy ? pairs_to_ : pairs_from_).push_back(step.rank);
      if (part != Part::step) continue;
      const auto first_peer = static_cast<std::uint32_t>(peers_.size());
      // Filled where it lies: to copy what was just written piecemeal takes 80 ns.
      BriefStep& todo = steps_.emplace_back();
      todo.step = &step;
      todo.flow = f;
      todo.index = i;
      todo.first_peer = first_peer;
      todo.header.comm = comm;
      todo.header.tag = step.tag;
      todo.header.from = me;
      set_elements(todo, fingerprint);
      for (std::uint32_t peer = 0; peer < step.peers; ++peer)
        peers_.push_back(&local.peer_of(prepared.to[step.peer + peer]));
    }
  }
  to_ = pairs_to_;
  from_ = pairs_from_;
  if (!call.pairwise && is_read()) return;
  // Within a host each of these is one step.
  Credit::each_token_step(
      plan, [&](Verb verb, std::span<const Rank> ranks) { (verb == Verb::copy ? to_ : from_) = ranks; });
}

void BriefCall::set_elements(BriefStep& step, Fingerprint fingerprint) const {
  step.count = count_of(call_, *step.step);
  step.header.bytes = static_cast<std::uint32_t>(step.count * size_of(call_.type));
  step.header.fingerprint = fingerprint;
  step.own = {step.step->own, offset_of(call_, step.step->own, step.step->own_block)};
  step.into = {step.step->into, offset_of(call_, step.step->into, step.step->into_block)};
}

BriefCall::Part BriefCall::part_of(const Call& call, const Plan& plan, const Step& step) {
  if (reach_of(call, step) == 0 || is_answered_by_reading(call, plan, step)) return Part::none;
  return call.pairwise && Credit::stands_for(call, plan, step) ? Part::of_credit : Part::step;
}

bool BriefCall::has_same_parts(const Call& call) const {
  const Plan& plan = plan_->plan;
  if (!call.pairwise) return is_read_in_place(plan, call.bytes()) == is_read();
  auto part = parts_.begin();
  for (std::uint32_t f = 0; f < plan.flows.size(); ++f) {
    if (static_cast<int>(f) == plan.token_flow) continue;
    for (const Step& step : std::span(plan.steps).subspan(plan.flows[f].first, plan.flows[f].count))
      if (part_of(call, plan, step) != *part++) return false;
  }
  return true;
}

bool BriefCall::recount(const Call& call) {
  if (!has_same_parts(call)) return false;
  call_.count = note_.count = call.count;
  call_.in_blocks = call.in_blocks;
  call_.out_blocks = call.out_blocks;
  call_.lengths = call.lengths;
  call_.fingerprint = call.fingerprint;
  note_.fingerprint = fingerprint_of(call_, plan_->choice.wire);
  for (BriefStep& step : steps_) set_elements(step, note_.fingerprint);
  return true;
}

void BriefCall::copy_alone(const void* in, void* out) const {
  for (const BriefStep& step : steps_) {
    std::byte *from = at(step.own, in, out), *to = at(step.into, in, out);
    if (to != from) std::memcpy(to, from, step.count * size_of(call_.type));
  }
}

void BriefCall::leave_to_caller(const BriefStep& step, std::span<const void* const> sources) {
  const Bytes bytes = step.header.bytes;
  left_ = &step;
  std::byte* to = left_sources_.of((sources.size() - 1) * bytes);
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (i != step.step->own_rank) std::memcpy(std::exchange(to, to + bytes), sources[i], bytes);
}

void BriefCall::combine_what_is_left() {
  if (!left_) return;
  const BriefStep& step = *std::exchange(left_, nullptr);
  std::array<const void*, kMostRanks> sources;
  const std::byte* from = left_sources_.get();
  for (std::uint32_t i = 0; i <= step.step->peers; ++i)
    sources[i] = i == step.step->own_rank ? at(step.own) : std::exchange(from, from + step.header.bytes);
  apply({call_.type, call_.op, std::span(sources.data(), step.step->peers + 1), at(step.into), nullptr,
         step.count, Store::cached, call_.own});
}

}  // namespace ddl
