// The part of Engine about what starts operations by itself.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/collective/engine.hpp"

namespace ddl {

void Engine::attach(Background& background) {
  std::lock_guard lock(mutex_);
  backgrounds_.push_back({&background});
}

// A thread may be at work for it without the lock: then the engine has failed, or it would not be idle.
void Engine::detach(Background& background) {
  for (;; ::sched_yield()) {
    std::lock_guard lock(mutex_);
    auto found = find(background);
    if (found->is_advancing) continue;
    background.collect(counted_);
    backgrounds_.erase(found);
    return;
  }
}

void Engine::take_turn(Background& background, const std::function<void(EngineTurn&)>& body) {
  rounds_.fetch_add(1, std::memory_order_relaxed);  // a program that starts calls is not away
  std::lock_guard lock(mutex_);
  settle();
  EngineTurn turn(*this);
  body(turn);
  while (fabrics_.wire && !failed() && fabrics_.wire->push(0)) advance_active();
  if (!background.idle() && helper_sleeps_.load()) call_helper();
}

std::vector<Engine::Attached>::iterator Engine::find(const Background& background) {
  return std::find_if(backgrounds_.begin(), backgrounds_.end(),
                      [&](const Attached& one) { return one.background == &background; });
}

// By place: while one works without the lock others may come.
bool Engine::advance_backgrounds() {
  bool moved = false;
  for (std::size_t i = 0; i < backgrounds_.size() && !failed(); ++i) {
    Background& background = *backgrounds_[i].background;
    if (backgrounds_[i].is_advancing || background.idle()) continue;
    struct Advancing {  // its place may change meanwhile
      Engine& engine;
      Background& background;
      Advancing(Engine& in, Background& who) : engine(in), background(who) { mark(true); }
      ~Advancing() { mark(false); }
      void mark(bool is) { engine.find(background)->is_advancing = is; }
    } advancing(*this, background);
    EngineTurn turn(*this);
    moved |= background.advance(turn);
  }
  return moved;
}

// ---- EngineTurn ----

void EngineTurn::start(Communicator& communicator, const Call& call, PreparedPlan& plan,
                       Completion& completion) {
  communicator.start(call, plan, completion);
  engine_.take_up(communicator, Engine::kTogether);
}

void EngineTurn::promise(Completion& completion, const Call& call, bool hears_wire) {
  completion.done_.store(false, std::memory_order_relaxed);
  completion.hears_wire_ = hears_wire;
  completion.bytes_ = call.bytes();
  completion.goes_on_ = true;
  completion.gets_notice_ = completion.asks_for_notice_;
  engine_.begin_time(call, completion);
  ++engine_.shared_.going_on;
}

void EngineTurn::fulfil(Completion& completion) {
  Shared& shared = engine_.shared_;
  --shared.going_on;
  if (completion.timed_as_) shared.time.end(std::exchange(completion.timed_as_, nullptr), now());
  if (completion.gets_notice_) shared.notices.add(completion);
  completion.done_.store(true, std::memory_order_release);  // its owner may end it now
}

void EngineTurn::work(const std::function<void()>& body) {
  const WithoutLock away(engine_.shared_);
  body();
}

bool EngineTurn::failed() const { return engine_.failed(); }

}  // namespace ddl
