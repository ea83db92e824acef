// The part of Communicator that starts small calls within a host without an operation, and leaves them where
// a message is missing until somebody waits for them.
#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/collective/communicator.hpp"

namespace ddl {

bool Communicator::start(BriefCall& brief, Completion& completion) {
  Attempt attempt{&brief, &completion, ShortWait::none()};
  if (has_left_some()) {
    send_ahead(attempt);
    leave(attempt);
    return false;
  }
  const bool is_long = brief.call().bytes() >= kLongWork && size() > 1;  // it leaves the lock
  if (is_long || !is_alone(brief))
    return brief.start_time(), start(brief.call(), brief.plan(), completion), true;
  if (go_on(attempt)) return true;
  leave(attempt);
  if (!needs_operation()) return false;
  resume_by_operation();
  return true;
}

// What is bounded by credit, or counts its readers, or leaves something to its caller, is left alone or not
// at all.
bool Communicator::may_be_left_with_others(const BriefCall& brief) {
  return !brief.needs_credit() && !brief.is_read() && !brief.call().own && brief.call().bytes() < kLongWork;
}

bool Communicator::may_follow(const BriefCall& brief) const {
  return has_left_some() && left_.size() < kMostLeft && idle() && early_.empty() &&
         may_be_left_with_others(left_brief()) && may_be_left_with_others(brief);
}

void Communicator::leave(const Attempt& attempt) {
  const Call& call = attempt.brief->call();
  left_.push_back({attempt, call.in, call.out, call.number, call.began});
}

// The oldest; its brief call is made with its buffers again.
Communicator::Attempt& Communicator::take_up_left() {
  Left& one = left_.front();
  one.attempt.brief->use(one.in, one.out, one.number, one.began);
  return one.attempt;
}

bool Communicator::resume(ShortWait wait) {
  Attempt& attempt = take_up_left();
  attempt.wait = wait;
  const bool is_done = go_on(attempt);
  if (is_done)
    left_.pop_front();
  else
    left_.front().began = attempt.brief->call().began;
  return is_done;
}

bool Communicator::has_left(const Completion& completion) const {
  for (std::size_t i = 0; i < left_.size(); ++i)
    if (left_[i].attempt.completion == &completion) return true;
  return false;
}

bool Communicator::wants(const Header& header, const SharedMemoryTransport::Peer& from) const {
  const Attempt& oldest = left_.front().attempt;
  // Who makes progress does not end a reduction of the program's own.
  if (oldest.done == oldest.brief->steps().size() || oldest.brief->call().own) return false;
  const BriefCall::BriefStep& awaited = oldest.brief->steps()[oldest.done];
  const auto peers = oldest.brief->peers(awaited);
  return awaited.step->verb != Verb::send && is_of_step(header, awaited) &&
         std::find(peers.begin(), peers.end(), &from) != peers.end();
}

bool Communicator::is_stuck(const Attempt& attempt) {
  const std::span<const BriefCall::BriefStep> steps = attempt.brief->steps();
  return attempt.done < steps.size() && steps[attempt.done].step->verb == Verb::send;
}

bool Communicator::needs_operation() const {
  const Attempt& oldest = left_.front().attempt;
  const bool waits_for_readers = oldest.done == oldest.brief->steps().size() && oldest.brief->call().own;
  return !early_.empty() || waits_for_readers || is_stuck(oldest) || is_stuck(left_.back().attempt);
}

void Communicator::begin_waiting() {
  Left& one = left_.front();
  if (!std::exchange(one.is_awaited, true) && one.began != 0) one.began = now();
}

void Communicator::resume_by_operation() {
  const Attempt attempt = take_up_left();
  left_.pop_front();
  go_on_by_operation(attempt);
}

}  // namespace ddl
