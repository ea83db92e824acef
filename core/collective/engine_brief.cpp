// The part of Engine about calls that are ready to be made again and are started: done at once, or, where a
// message is missing, left as they are, without an operation. Most programs wait for it soon.
#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/collective/engine.hpp"

namespace ddl {
namespace {

// They are looked at one by one.
constexpr std::size_t kMostLeft = 64;
// The others of a call may come late, and what stands behind its messages may be what they wait for.
constexpr Nanoseconds kPatience = 50'000;

}  // namespace

Started Engine::start(Communicator& communicator, BriefCall& call, const void* in, void* out,
                      std::uint64_t number, Completion& completion) {
  rounds_.fetch_add(1, std::memory_order_relaxed);
  move_host_now_and_then();
  const Started how = start_locked(communicator, call, in, out, number, completion);
  call.combine_what_is_left();
  return how;
}

Started Engine::start_locked(Communicator& communicator, BriefCall& call, const void* in, void* out,
                             std::uint64_t number, Completion& completion) {
  std::lock_guard lock(mutex_);
  call.prefetch_first_entries();
  end_some_left(communicator);
  const bool follows = active_.empty() && communicator.may_follow(call);
  if (!follows) settle(communicator);
  if (!follows && left_.size() == kMostLeft) settle();
  completion.goes_on_ = true;
  completion.gets_notice_ = false;
  completion.timed_as_ = nullptr;
  call.use(in, out, number);
  bool is_left = false;
  if (!active_.empty()) {
    call.start_time();
    communicator.start(call.call(), call.plan(), completion);
  } else if (!communicator.start(call, completion)) {
    is_left = true;
    if (!follows) left_.push_back(&communicator);
    completion.done_.store(false, std::memory_order_relaxed);
    ++shared_.going_on;
    if (follows && communicator.needs_operation()) settle(communicator);
  }
  if (!is_left) take_up_rest(communicator, completion);
  if (completion.done()) return Started::done;
  if (!is_left) begin_time(call.call(), completion);
  completion.gets_notice_ = completion.asks_for_notice_;
  tell_helper(call.call(), call.plan());
  return Started::under_way;
}

void Engine::run_alone(Communicator& communicator, BriefCall& call, const void* in, void* out) {
  std::lock_guard lock(mutex_);
  communicator.run_alone(call, in, out);
}

void Engine::let_go_of_brief_calls() {
  std::lock_guard lock(mutex_);
  settle();
}

// A reduction of the program's own leaves something to its caller, who is not here. What the program did
// meanwhile is no time of the call's.
bool Engine::try_to_end(Communicator& communicator) {
  if (communicator.left_call().own || communicator.needs_operation()) return false;
  Completion& completion = communicator.left_completion();
  communicator.begin_waiting();
  if (!communicator.resume(ShortWait::none())) return false;
  if (!communicator.has_left_some()) std::erase(left_, &communicator);
  end_left(communicator, completion);
  return true;
}

void Engine::end_some_left(Communicator& communicator) {
  while (communicator.has_left_some() && !failed() && try_to_end(communicator)) {
  }
}

// Each as far as it gets by itself. True: some have moved.
bool Engine::move_left() {
  bool moved = false;
  for (std::size_t i = 0; i < left_.size() && !failed();) {
    Communicator& one = *left_[i];
    if (try_to_end(one)) {
      moved = true;  // the next one is there now, of this communicator or another one
    } else if (one.needs_operation()) {
      settle(one);
      moved = true;
    } else {
      ++i;
    }
  }
  return moved;
}

// True: of what has arrived all is wanted by those left, each of which wants more; nobody else takes it for
// now. Otherwise nobody of them wants it, and it may stand before what they want: none is left any more.
bool Engine::leave_arrived(bool& moved) {
  while (!left_.empty() && !failed() && fabrics_.local->has_arrived()) {
    if (active_.empty() && backgrounds_.empty() && only_left_ones_want() && is_patient()) return true;
    if (!move_left()) settle();
    moved = true;
  }
  return false;
}

// With the oldest, for so long.
bool Engine::is_patient() {
  const Communicator& oldest = *left_.front();
  const Nanoseconds time = now();
  if (patience_.with != &oldest || patience_.number != oldest.left_number())
    patience_ = {&oldest, oldest.left_number(), time + kPatience};
  return time < patience_.until;
}

bool Engine::only_left_ones_want() const {
  return fabrics_.local->all_first([this](const Header& header, const SharedMemoryTransport::Peer& from) {
    return std::any_of(left_.begin(), left_.end(),
                       [&](const Communicator* one) { return one->wants(header, from); });
  });
}

// From now on they move with all that is under way.
void Engine::settle() {
  while (!left_.empty() && !failed()) settle(*left_.front());
}

void Engine::settle(Communicator& communicator) {
  end_some_left(communicator);
  if (!communicator.has_left_some() || failed()) return;
  std::erase(left_, &communicator);
  go_on_by_operations(communicator);
}

void Engine::go_on_by_operations(Communicator& communicator) {
  while (communicator.has_left_some() && !failed()) {
    const Call& call = communicator.left_call();
    Completion& completion = communicator.left_completion();
    communicator.resume_by_operation();
    --shared_.going_on;  // the operation counts itself
    begin_time(call, completion);
    take_up(communicator, 0);
  }
}

// For a blocking call there. What others have begun may come first, and would stand before its messages.
void Engine::make_way(Communicator& communicator) {
  if (left_.empty()) return;
  settle(communicator);
  move_left();
}

// Waits for it as for a blocking call. A message that one of those left wants may stand before its own.
bool Engine::resume(Communicator& communicator) {
  do {
    if (communicator.resume(wait_at_once())) return true;
  } while (move_left());
  return false;
}

void Engine::run_among_left(Communicator& communicator, BriefCall& call, Completion& completion) {
  if (left_.empty()) return communicator.run(call, completion, wait_at_once());
  if (communicator.start(call, completion) || resume(communicator)) return;
  communicator.resume_by_operation();
}

// Who waits for it now waits as for a blocking call, and for those before it. False: it goes on, settled.
bool Engine::finish_left(const Completion& completion) {
  rounds_.fetch_add(1, std::memory_order_relaxed);
  BriefCall* reducing = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(left_.begin(), left_.end(),
                                    [&completion](Communicator* one) { return one->has_left(completion); });
    if (found == left_.end() || failed()) return completion.done();
    Communicator& communicator = **found;
    if (communicator.left_call().own) reducing = &communicator.left_brief();
    left_.erase(found);
    if (end_those_left_up_to(communicator, completion)) {
      if (communicator.has_left_some()) left_.push_back(&communicator);
    } else {
      go_on_by_operations(communicator);
      settle();
    }
  }
  if (reducing) reducing->combine_what_is_left();
  return completion.done();
}

bool Engine::end_those_left_up_to(Communicator& communicator, const Completion& last) {
  for (bool is_last = false; !is_last;) {
    Completion& oldest = communicator.left_completion();
    is_last = &oldest == &last;
    communicator.begin_waiting();
    if (communicator.needs_operation() || !resume(communicator)) return false;
    end_left(communicator, oldest);
  }
  return true;
}

void Engine::end_left(Communicator& communicator, Completion& completion) {
  if (!communicator.problem().empty()) take_up(communicator, 0);
  --shared_.going_on;
  if (completion.gets_notice_) shared_.notices.add(completion);
  completion.done_.store(true, std::memory_order_release);  // its owner may end it now
}

}  // namespace ddl
