// The part of Communicator that makes small calls within a host without an operation, and what counts calls.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/clock.hpp"
#include "core/base/pause.hpp"
#include "core/collective/communicator.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

constexpr Rank kMostAtOnce = 32;  // ranks of a communicator that Communicator::run() cares for

}  // namespace

bool Communicator::can_run_at_once(const Call& call, const PreparedPlan& prepared) const {
  const bool has_tokens = prepared.plan.token_flow >= 0;
  const bool is_small =
      has_tokens ? Credit::covers(call, prepared.plan, next_) : call.bytes() <= Credit::kMostBytes;
  return (prepared.is_one_shot || (prepared.is_brief && is_small)) && !call.own && size() <= kMostAtOnce &&
         call.count > 0 && call.bytes() <= prepared.plan.segment && idle() && early_.empty() &&
         !times_dimensions_;
}

void Communicator::run(const Call& call, PreparedPlan& plan, Completion& completion, int pauses) {
  PreparedPlan& prepared = plans_->turn(plan, next_);
  if (!can_run_at_once(call, prepared)) return start(call, prepared, completion);
  prepared.is_one_shot ? run_one_shot(call, prepared, completion, pauses)
                       : run_brief(call, prepared, completion, pauses);
}

Header Communicator::header_of(const Call& call, const PreparedPlan& prepared, const Step& step) const {
  return {id_,
          step.tag,
          seq_of(next_),
          0,
          fingerprint_of(call, prepared.choice.wire),
          members().me,
          static_cast<std::uint32_t>(count_of(call, step) * size_of(call.type)),
          0};
}

void Communicator::run_one_shot(const Call& call, PreparedPlan& prepared, Completion& completion,
                                int pauses) {
  const Step& send = prepared.plan.steps[0];
  Outgoing message = addressed(header_of(call, prepared, send), send, prepared);
  message.header.segment = kSenderWasAlone;
  message.payload = {static_cast<const std::byte*>(call.in), call.bytes()};
  if (message.payload.size() > View::kInline) stage(message, next_);
  if (!shared_.fabrics.local->send(message)) return start(call, prepared, completion);
  Heard heard = reduce_arrived(call, prepared, prepared.plan.steps[1], pauses);
  if (heard == Heard::not_all) return queue(call, prepared, completion).skip_steps(0, 1);
  if (heard == Heard::all_alone) heard_all_alone(next_);
  end_at_once(call, prepared);
}

// Sends what is to be sent, then takes what comes; if one of these is not possible an operation goes on
// there.
void Communicator::run_brief(const Call& call, PreparedPlan& prepared, Completion& completion, int pauses) {
  const Plan& plan = prepared.plan;
  if (plan.token_flow >= 0 && !has_credit(prepared)) return start(call, prepared, completion);
  for (std::size_t f = 0; f < plan.flows.size(); ++f) {
    if (static_cast<int>(f) == plan.token_flow) continue;
    for (std::uint32_t i = 0; i < plan.flows[f].count; ++i)
      if (!run_brief_step(call, prepared, plan.steps[plan.flows[f].first + i], pauses))
        return queue(call, prepared, completion).skip_steps(f, i);
  }
  if (plan.token_flow >= 0) credit_.note(next_, call, plan);
  end_at_once(call, prepared);
}

bool Communicator::run_brief_step(const Call& call, const PreparedPlan& prepared, const Step& step,
                                  int& pauses) {
  if (reach_of(call, step) == 0) return true;
  if (step.verb != Verb::send) {
    if (step.peers > 0) return reduce_arrived(call, prepared, step, pauses) != Heard::not_all;
    const std::byte* own = block_at(call, step.own, step.own_block);
    const Bytes bytes = count_of(call, step) * size_of(call.type);
    if (std::byte* into = block_at(call, step.into, step.into_block); into != own && bytes > 0)
      std::memcpy(into, own, bytes);
    return true;
  }
  Outgoing message = addressed(header_of(call, prepared, step), step, prepared);
  message.payload = {block_at(call, step.own, step.own_block), message.header.bytes};
  return shared_.fabrics.local->send(message);
}

void Communicator::end_at_once(const Call& call, PreparedPlan& prepared) {
  if (credit_.must_answer(next_)) answer_those_owed(next_);
  first_ = ++next_;
  count_brief(call, prepared);
}

// Reduces the messages of all peers of that step where they lie, if these are the next to come from each, and
// come within so many pauses; else all are left there. A copy is of one.
Communicator::Heard Communicator::reduce_arrived(const Call& call, const PreparedPlan& prepared,
                                                 const Step& step, int& pauses) {
  using Arrived = SharedMemoryTransport::Arrived;
  SharedMemoryTransport& local = *shared_.fabrics.local;
  const Header awaited = header_of(call, prepared, step);
  const bool reduces = step.verb == Verb::reduce;
  std::array<const void*, kMostAtOnce> sources;
  std::array<Bytes, kMostAtOnce> blocks;  // to be released
  Heard heard = Heard::all_alone;
  for (std::uint32_t i = 0; i < step.peers; ++i) {
    const Rank from = prepared.to[step.peer + i];
    Arrived message = local.first_from(from);
    for (; !message.header || take_answer(message, from); message = local.first_from(from)) {
      if (!message.header && pauses-- <= 0) return Heard::not_all;
      if (!message.header) pause_a_moment();
    }
    if (message.header->comm != id_ || message.header->seq != awaited.seq ||
        message.header->tag != step.tag || (message.header->segment & ~kSenderWasAlone) != 0 ||
        message.header->bytes != awaited.bytes || message.header->fingerprint != awaited.fingerprint)
      return Heard::not_all;
    if (!(message.header->segment & kSenderWasAlone)) heard = Heard::all;
    sources[reduces && i >= step.own_rank ? i + 1 : i] = message.payload;
    if (message.is_kept && !knows_all_kept()) note_kept(prepared.plan.peers[step.peer + i], message.block);
    blocks[i] = message.is_kept ? 0 : message.block;
  }
  std::byte* into = block_at(call, step.into, step.into_block);
  if (reduces && awaited.bytes > 0) {
    sources[step.own_rank] = block_at(call, step.own, step.own_block);
    reduce(call.type, call.op, into, std::span<const void* const>(sources.data(), step.peers + 1),
           count_of(call, step));
  } else if (awaited.bytes > 0) {
    std::memcpy(into, sources[0], awaited.bytes);
  }
  for (std::uint32_t i = 0; i < step.peers; ++i) {
    local.drop_first(prepared.to[step.peer + i], blocks[i]);
    credit_.heard(prepared.plan.peers[step.peer + i], next_);
  }
  return heard;
}

// Takes what is first in the mailbox of that rank of the job if it is an answer to this communicator.
bool Communicator::take_answer(const SharedMemoryTransport::Arrived& message, Rank rank) {
  const Header& header = *message.header;
  if (header.tag != Credit::kAnswer || header.comm != id_ || header.bytes != 0 || header.from < 0 ||
      header.from >= size() || members().ranks[static_cast<std::size_t>(header.from)] != rank)
    return false;
  credit_.heard(header.from, number_of(header.seq));
  shared_.fabrics.local->drop_first(rank, 0);
  return true;
}

// Looks for answers where it has none.
bool Communicator::has_credit(const PreparedPlan& prepared) {
  if (credit_.is_left(prepared.plan)) return true;
  for (Rank rank : prepared.to)
    for (auto message = shared_.fabrics.local->first_from(rank);
         message.header && take_answer(message, rank);)
      message = shared_.fabrics.local->first_from(rank);
  return credit_.is_left(prepared.plan);
}

PreparedPlan::Use& Communicator::use_of(const Call& call, PreparedPlan& prepared) {
  const char* collective = call.collective;  // "": one of our own, which nobody wants to count
  auto& uses = prepared.uses;
  auto use =
      std::find_if(uses.begin(), uses.end(), [&](const auto& one) { return one.collective == collective; });
  return use == uses.end() ? uses.emplace_back(PreparedPlan::Use{collective}) : *use;
}

// What goes on while the program computes overlaps with others of its kind.
void Communicator::count(const Operation& operation) {
  const Call& call = operation.call();
  const char*& timed_as = operation.completion()->timed_as_;
  const Nanoseconds end = now();
  PreparedPlan::Use& use = use_of(call, operation.prepared());
  use.tally.add(call.bytes(), timed_as ? 0 : end - call.began);
  if (!operation.prepared().choice.wire.is_exact())
    use.narrowed.add({0, 0, operation.narrowed_bytes().sent, operation.narrowed_bytes().in_memory});
  if (timed_as) shared_.time.end(std::exchange(timed_as, nullptr), end);
}

// A look at the clock is a tenth of a call that was done at once: after some, every so many are timed, for
// all.
void Communicator::count_brief(const Call& call, PreparedPlan& prepared) {
  constexpr std::uint64_t kAllTimed = 32, kTimedEvery = 16;
  Tally& tally = use_of(call, prepared).tally;
  const bool is_timed = tally.calls < kAllTimed || tally.calls % kTimedEvery == 0;
  const Nanoseconds stands_for = tally.calls < kAllTimed ? 1 : kTimedEvery;
  tally.add(call.bytes(), is_timed ? stands_for * (now() - call.began) : 0);
}

}  // namespace ddl
