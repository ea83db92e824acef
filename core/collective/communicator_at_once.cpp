// The part of Communicator that makes small calls within a host without an operation, and what counts calls.
#include <array>
#include <cstring>
#include <utility>

#include "core/base/clock.hpp"
#include "core/collective/communicator.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

// A look at the clock is a tenth of a call that is done at once: after some, every so many are timed, for
// all.
constexpr std::uint64_t kAllTimed = 32, kTimedEvery = 16;
constexpr int kPausesUntimed = 8, kYieldsUntimed = 1;  // who waits longer has the time for that look

// Where ranks take turns on the cores an operation reads whatever has come (4 on two, by that / in order:
// all-to-all of 64 and 256 KiB 112 / 131, 454 / 516 us).
bool reads_in_any_order(const Call& call, const PreparedPlan& plan, const ShortWait& wait) {
  return wait.yields() && is_read_in_place(plan.plan, call.bytes());
}

bool is_timed(std::uint64_t calls) { return calls < kAllTimed || calls % kTimedEvery == 0; }
bool is_timed(const Tally& tally) { return is_timed(tally.calls); }

}  // namespace

void Communicator::run(const Call& call, PreparedPlan& plan, Completion& completion, ShortWait wait) {
  PreparedPlan& prepared = plans_->turn(plan, next_);
  const bool needs_tokens = next_ == 0 && prepared.plan.token_flow >= 0;  // see Credit
  if (needs_tokens || !BriefCall::is_possible(call, prepared, size()) || times_dimensions_ ||
      reads_in_any_order(call, prepared, wait))
    return start(call, prepared, completion);
  make_brief(passing_, call, prepared);
  run(passing_, completion, wait);
}

void Communicator::make_brief(BriefCall& brief, const Call& call, PreparedPlan& plan) const {
  brief.make(call, plan, id_, members().me, *shared_.fabrics.local);
}

// If not all of it is possible an operation goes on there.
void Communicator::run(BriefCall& brief, Completion& completion, ShortWait wait) {
  if (!is_alone(brief) || reads_in_any_order(brief.call(), brief.plan(), wait))
    return brief.start_time(), start(brief.call(), brief.plan(), completion);
  Attempt attempt{&brief, &completion, wait};
  if (!go_on(attempt)) go_on_by_operation(attempt);
}

// Nobody else has to agree with what has been made here. Threads may share such a communicator, as
// MPI_COMM_SELF: what they copy for long they copy at once.
void Communicator::run_alone(BriefCall& brief, const void* in, void* out) {
  Tally& tally = brief.use_of_plan().tally;
  const Bytes bytes = brief.call().bytes();
  const bool timed = is_timed(tally);
  const Nanoseconds began = timed ? now() : 0;
  if (bytes < kLongWork)
    brief.copy_alone(in, out);
  else
    work(bytes, [&] { brief.copy_alone(in, out); });
  tally.add(bytes, timed ? time_since(began, tally) : 0);
}

// Whether it is a message that this step of the next call takes.
bool Communicator::is_of_step(const Header& header, const BriefCall::BriefStep& todo) const {
  const Header& awaited = todo.header;
  return header.comm == id_ && header.seq == seq_of(next_) && header.tag == awaited.tag &&
         (header.segment & ~kSenderWasAlone) == 0 && header.bytes == awaited.bytes &&
         header.fingerprint == awaited.fingerprint;
}

// Whether it may be tried.
bool Communicator::is_alone(const BriefCall& brief) {
  if (!idle() || !early_.empty()) return false;
  return !brief.needs_credit() || (next_ > 0 && (credit_.is_left(brief.to()) || look_for_credit(brief)));
}

// Sends what is to be sent, then takes what comes.
bool Communicator::go_on(Attempt& attempt) {
  BriefCall& brief = *attempt.brief;
  Tally& tally = brief.use_of_plan().tally;
  const bool timed = is_timed(tally);
  if (attempt.done == 0 && timed) brief.start_time();
  const std::span<const BriefCall::BriefStep> steps = brief.steps();
  for (; attempt.done < steps.size(); ++attempt.done)
    if (!run_step(attempt, steps[attempt.done], next_)) return false;
  if (read_ > 0 && !await_readers(attempt)) return false;
  if (brief.plan().is_one_shot && attempt.heard_all_alone) heard_all_alone(next_);
  if (brief.needs_credit()) credit_.note(next_, brief.call(), brief.to(), brief.from());
  own_calls_.note(next_, brief.note());
  if (credit_.must_answer(next_)) answer_those_owed(next_);
  first_ = ++next_;
  tally.add(brief.call().bytes(), timed && brief.has_begun() ? time_since(brief.call().began, tally) : 0);
  return true;
}

// Of one that follows others that are left: what it sends before it takes anything.
void Communicator::send_ahead(Attempt& attempt) {
  const BriefCall& brief = *attempt.brief;
  if (is_timed(attempt.brief->use_of_plan().tally.calls + left_.size())) attempt.brief->start_time();
  const std::span<const BriefCall::BriefStep> steps = brief.steps();
  const Number number = next_ + left_.size();
  for (; attempt.done < steps.size(); ++attempt.done) {
    const BriefCall::BriefStep& todo = steps[attempt.done];
    const bool takes = todo.step->verb != Verb::send && todo.step->peers > 0;
    if (takes || !run_step(attempt, todo, number)) return;
  }
}

void Communicator::go_on_by_operation(const Attempt& attempt) {
  BriefCall& brief = *attempt.brief;
  brief.start_time();
  Operation& operation = queue(brief.call(), brief.plan(), *attempt.completion, true);
  if (attempt.done < brief.steps().size()) {
    const BriefCall::BriefStep& step = brief.steps()[attempt.done];
    operation.skip_steps(step.flow, step.index);
  } else {
    operation.skip_steps(brief.plan().plan.flows.size(), 0);
  }
  if (read_ > 0) shared_.fabrics.local->move_count(read_, *operation.unfinished());
}

bool Communicator::run_step(Attempt& attempt, const BriefCall::BriefStep& todo, Number number) {
  const BriefCall& brief = *attempt.brief;
  const Step& step = *todo.step;
  if (step.verb == Verb::send) return send_brief(brief, todo, number);
  if (step.peers > 0) return take_brief(attempt, todo);
  std::byte *own = brief.at(todo.own), *into = brief.at(todo.into);
  const Bytes bytes = todo.count * size_of(brief.call().type);  // of who is alone more than a header can say
  if (into == own || bytes == 0) return true;
  // Threads may share a communicator of one rank, as MPI_COMM_SELF: nobody can tell in which order they came.
  if (bytes < kLongWork || size() == 1) return std::memcpy(into, own, bytes), true;
  work(bytes, [=] { std::memcpy(into, own, bytes); });
  return true;
}

// Who sends it has finished all earlier calls if that is the next one.
bool Communicator::send_brief(const BriefCall& brief, const BriefCall::BriefStep& todo, Number number) {
  const bool is_one_shot = brief.plan().is_one_shot;
  SharedMemoryTransport& local = *shared_.fabrics.local;
  Header header = todo.header;
  header.seq = seq_of(number);
  if (is_one_shot && number == next_) header.segment = kSenderWasAlone;
  const std::span<const std::byte> payload{brief.at(todo.own), header.bytes};
  bool sent = false;
  if (payload.size() <= local.most_inline()) {
    sent = local.send_inline(header, payload, brief.peers(todo));
  } else {
    Outgoing message = addressed(header, *todo.step, brief.plan());
    message.payload = payload;
    if (is_read_in_place(brief.plan().plan, payload.size())) {
      message.unfinished = &read_;
      sent = local.send_single_copy(message);
    } else if (is_one_shot) {
      stage(message, number);
      sent = local.send(message);
      if (sent) prefetch_other_kept(message);
    } else {
      sent = local.send_at_once(message);
    }
  }
  if (sent && credit_.owes()) note_told(*todo.step, brief.plan(), number);
  return sent;
}

// Reduces the messages of all peers of that step where they lie, if these are the next to come from each, and
// come within that wait; else all are left there. A copy is of one.
bool Communicator::take_brief(Attempt& attempt, const BriefCall::BriefStep& todo) {
  using Arrived = SharedMemoryTransport::Arrived;
  SharedMemoryTransport& local = *shared_.fabrics.local;
  BriefCall& brief = *attempt.brief;
  const PreparedPlan& prepared = brief.plan();
  const Step& step = *todo.step;
  const bool reduces = step.verb == Verb::reduce;
  std::array<const void*, BriefCall::kMostRanks> sources;
  std::array<Bytes, BriefCall::kMostRanks> blocks;  // to be released
  const std::span<SharedMemoryTransport::Peer* const> peers = brief.peers(todo);
  for (std::uint32_t i = 0; i < step.peers; ++i) {
    SharedMemoryTransport::Peer& from = *peers[i];
    Arrived message = local.first_from(from);
    for (int waited = 0; !message.header || take_answer(message, from); message = local.first_from(from)) {
      if (message.header) continue;
      if (++waited > (attempt.wait.yields() ? kYieldsUntimed : kPausesUntimed)) brief.start_time();
      if (!attempt.wait.once()) return false;
    }
    if (!is_of_step(*message.header, todo)) return false;
    if (message.is_elsewhere) return (!reduces || step.peers == 1) && fetch_brief(attempt, todo);
    attempt.heard_all_alone &= (message.header->segment & kSenderWasAlone) != 0;
    sources[reduces && i >= step.own_rank ? i + 1 : i] = message.payload;
    if (message.is_kept && !knows_all_kept()) note_kept(prepared.plan.peers[step.peer + i], message.block);
    blocks[i] = message.is_kept ? 0 : message.block;
  }
  if (todo.header.bytes > 0) {
    if (reduces)
      reduce_brief(brief, todo, std::span(sources.data(), step.peers + 1));
    else
      std::memcpy(brief.at(todo.into), sources[0], todo.header.bytes);
  }
  for (std::uint32_t i = 0; i < step.peers; ++i) {
    local.drop_first(*peers[i], blocks[i]);
    credit_.heard(prepared.plan.peers[step.peer + i], next_);
  }
  return true;
}

// With the own elements, whose place among the sources is free.
void Communicator::reduce_brief(BriefCall& brief, const BriefCall::BriefStep& todo,
                                std::span<const void*> sources) {
  const Call& call = brief.call();
  sources[todo.step->own_rank] = brief.at(todo.own);
  call.own ? brief.leave_to_caller(todo, sources)
           : reduce(call.type, call.op, brief.at(todo.into), sources, todo.count);
}

// What is first in the mailbox of the one peer of that step. What cannot be read comes again, staged.
bool Communicator::fetch_brief(const Attempt& attempt, const BriefCall::BriefStep& todo) {
  const bool reduces = todo.step->verb == Verb::reduce;
  BriefCall& brief = *attempt.brief;
  std::byte* const into = brief.at(todo.into);
  const bool is_taken = reduces && brief.at(todo.own) == into;  // by the own elements
  struct Fetch {
    View view;
    std::byte* into;
    bool is_there = false;
  } one{shared_.fabrics.local->take_first(*brief.peers(todo)[0]),
        is_taken ? fetched_.of(todo.header.bytes) : into};
  work(one.view.bytes(),
       [this, &one] { one.is_there = fetch(one.view, one.into) == SharedMemoryTransport::Fetched::all; });
  one.view.release();
  credit_.heard(brief.plan().plan.peers[todo.step->peer], next_);
  if (!one.is_there || !reduces) return one.is_there;
  std::array<const void*, 2> sources{one.into, one.into};
  work(todo.header.bytes, [&] { reduce_brief(brief, todo, sources); });
  return true;
}

// Of what this rank has sent to be read where it is.
bool Communicator::await_readers(Attempt& attempt) {
  while (read_ > 0) {
    if (shared_.fabrics.local->end_single_copies()) continue;
    attempt.brief->start_time();
    if (!attempt.wait.once()) return false;
  }
  return true;
}

// Takes what is first in that rank's mailbox if it is an answer to this communicator.
bool Communicator::take_answer(const SharedMemoryTransport::Arrived& message,
                               SharedMemoryTransport::Peer& peer) {
  const Header& header = *message.header;
  if (header.tag != Credit::kAnswer || header.comm != id_ || header.bytes != 0 || header.from < 0 ||
      header.from >= size() || members().ranks[static_cast<std::size_t>(header.from)] != peer.rank)
    return false;
  credit_.heard(header.from, number_of(header.seq));
  shared_.fabrics.local->drop_first(peer, 0);
  return true;
}

bool Communicator::look_for_credit(const BriefCall& brief) {
  SharedMemoryTransport& local = *shared_.fabrics.local;
  for (Rank rank : brief.plan().to) {
    SharedMemoryTransport::Peer& peer = local.peer_of(rank);
    auto message = local.first_from(peer);
    while (message.header && take_answer(message, peer)) message = local.first_from(peer);
  }
  return credit_.is_left(brief.to());
}

// What goes on while the program computes overlaps with others of its kind.
void Communicator::count(const Operation& operation) {
  const Call& call = operation.call();
  const char*& timed_as = operation.completion()->timed_as_;
  const Nanoseconds end = now();
  PreparedPlan::Use& use = operation.prepared().use_of(call.counted_as());
  use.tally.add(call.bytes(), timed_as ? 0 : end - call.began);
  if (!operation.prepared().choice.wire.is_exact())
    use.narrowed.add({0, 0, operation.narrowed_bytes().sent, operation.narrowed_bytes().in_memory});
  if (timed_as) shared_.time.end(std::exchange(timed_as, nullptr), end);
}

// With those that it stands for.
Nanoseconds Communicator::time_since(Nanoseconds began, const Tally& tally) {
  return (now() - began) * (tally.calls < kAllTimed ? 1 : static_cast<Nanoseconds>(kTimedEvery));
}

}  // namespace ddl
