// The part of Engine about calls that are ready to be made again and are started: done at once, or, where a
// message is missing, left as they are, without an operation. Most programs wait for it soon.
#include <utility>

#include "core/collective/engine.hpp"

namespace ddl {

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
  settle();
  completion.goes_on_ = true;
  completion.gets_notice_ = false;
  completion.timed_as_ = nullptr;
  call.use(in, out, number);
  bool is_left = false;  // left_ may be another's: a long call leaves the lock
  if (!active_.empty()) {
    call.start_time();
    communicator.start(call.call(), call.plan(), completion);
  } else if (!communicator.start(call, completion)) {
    is_left = true;
    left_ = &communicator;
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

// From now on it moves with all that is under way. What a reduction of the program's own leaves to its caller
// would find none here.
void Engine::settle() {
  if (!left_ || failed()) return;
  Communicator& communicator = *std::exchange(left_, nullptr);
  Completion& completion = communicator.left_completion();
  if (!communicator.left_call().own && communicator.resume(ShortWait::none()))
    return end_left(communicator, completion);
  const Call& call = communicator.left_call();
  communicator.resume_by_operation();
  --shared_.going_on;  // the operation counts itself
  begin_time(call, completion);
  take_up(communicator, 0);
}

// Who waits for it now waits as for a blocking call. False: it goes on, settled.
bool Engine::finish_left(const Completion& completion) {
  rounds_.fetch_add(1, std::memory_order_relaxed);
  BriefCall* reducing = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!left_ || &left_->left_completion() != &completion || failed()) return false;
    if (left_->left_call().own) reducing = &left_->left_brief();
    Completion& left = left_->left_completion();
    if (left_->resume(wait_at_once()))
      end_left(*std::exchange(left_, nullptr), left);
    else
      settle();
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
