// The part of Engine about calls that are ready to be made again and are started: done at once, or, where a
// message is missing, left as they are, without an operation. Most programs wait for it soon.
#include <algorithm>
#include <utility>

#include "core/collective/engine.hpp"

namespace ddl {
namespace {

// They are looked at one by one.
constexpr std::size_t kMostLeft = 64;

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
  settle(communicator);
  if (left_.size() == kMostLeft) settle();
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
    left_.push_back(&communicator);
    completion.done_.store(false, std::memory_order_relaxed);
    ++shared_.going_on;
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
  std::erase(left_, &communicator);
  end_left(communicator, completion);
  return true;
}

// Each as far as it gets by itself. True: some have moved.
bool Engine::move_left() {
  const std::size_t before = left_.size();
  for (std::size_t i = 0; i < left_.size() && !failed();) {
    Communicator& one = *left_[i];
    if (try_to_end(one)) continue;
    one.needs_operation() ? settle(one) : static_cast<void>(++i);
  }
  return left_.size() < before;
}

// From now on they move with all that is under way.
void Engine::settle() {
  while (!left_.empty() && !failed()) settle(*left_.front());
}

void Engine::settle(Communicator& communicator) {
  if (!communicator.has_left_one() || failed() || try_to_end(communicator)) return;
  std::erase(left_, &communicator);
  go_on_by_operation(communicator);
}

void Engine::go_on_by_operation(Communicator& communicator) {
  const Call& call = communicator.left_call();
  Completion& completion = communicator.left_completion();
  communicator.resume_by_operation();
  --shared_.going_on;  // the operation counts itself
  begin_time(call, completion);
  take_up(communicator, 0);
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

// Who waits for it now waits as for a blocking call. False: it goes on, settled.
bool Engine::finish_left(const Completion& completion) {
  rounds_.fetch_add(1, std::memory_order_relaxed);
  BriefCall* reducing = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(left_.begin(), left_.end(), [&completion](Communicator* one) {
      return &one->left_completion() == &completion;
    });
    if (found == left_.end() || failed()) return completion.done();
    Communicator& communicator = **found;
    Completion& left = communicator.left_completion();
    if (communicator.left_call().own) reducing = &communicator.left_brief();
    left_.erase(found);
    communicator.begin_waiting();
    if (!communicator.needs_operation() && resume(communicator)) {
      end_left(communicator, left);
    } else {
      go_on_by_operation(communicator);
      settle();
    }
  }
  if (reducing) reducing->combine_what_is_left();
  return completion.done();
}

void Engine::end_left(Communicator& communicator, Completion& completion) {
  if (!communicator.problem().empty()) take_up(communicator, 0);
  --shared_.going_on;
  if (completion.gets_notice_) shared_.notices.add(completion);
  completion.done_.store(true, std::memory_order_release);  // its owner may end it now
}

}  // namespace ddl
