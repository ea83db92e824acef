#include "core/collective/engine.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/pause.hpp"
#include "core/base/signals.hpp"

namespace ddl {
namespace {

// Blocking calls, and pauses or yields in one, between two calls into the original library; and between two
// looks at what makes no message in this host. Where ranks share cores each round of a waiting rank delays
// one that has work: 4 hosts x 2 on two cores up to 16 KiB, 7 % (guest and sockets in every round: 117 us,
// now 109).
constexpr int kGuestEvery = 64;
constexpr int kLookEvery = 16;
constexpr int kPausesAtOnce = 200;  // with the lock held, see Communicator::run
constexpr Nanoseconds kFirstSleep = 50'000;
// What takes longer on the wire is slept through at once (16 MiB, 4 hosts x 2, unshaped: 32.6 -> 31.5 ms).
constexpr Bytes kBrief = 1 << 20;
constexpr Nanoseconds kLongestDeafSleep = 200'000;  // nothing on the wire ends it

}  // namespace

Engine::Engine(Fabrics fabrics, Waiting waiting) : fabrics_(fabrics), waiting_(std::move(waiting)) {}

Engine::~Engine() {
  {
    std::lock_guard lock(helper_mutex_);
    helper_ends_ = true;
  }
  helper_wakes_.notify_all();
  if (helper_.joinable()) helper_.join();
  for (Early& early : early_) early.view.release();
}

std::optional<StagingArea> Engine::reserve(Bytes wanted, Bytes least, std::uint32_t sharers) {
  std::lock_guard lock(mutex_);
  return fabrics_.local->take_area(wanted, least, sharers);
}

void Engine::give_back(StagingArea area) {
  std::lock_guard lock(mutex_);
  fabrics_.local->return_unused_area(area);
}

void Engine::collect(Counters& into, std::vector<Bytes>& wire) {
  std::lock_guard lock(mutex_);
  wire.resize(std::max(wire.size(), wire_.size()));
  for (std::size_t lane = 0; lane < wire_.size(); ++lane) wire[lane] += std::exchange(wire_[lane], 0);
  into.take(counted_);
  for (auto& [id, communicator] : communicators_) communicator->collect(into, wire);
}

Communicator& Engine::create(CommunicatorSpec spec) {
  std::lock_guard lock(mutex_);
  CommId id = spec.id;
  auto communicator = std::make_unique<Communicator>(std::move(spec), fabrics_);
  Communicator& created = *communicator;
  communicators_[id] = std::move(communicator);
  std::vector<Early> early;
  early.swap(early_);
  for (Early& message : early) deliver(message.header, message.view);
  return created;
}

void Engine::destroy(Communicator& communicator) {
  std::lock_guard lock(mutex_);
  std::erase(active_, &communicator);
  auto found = communicators_.find(communicator.spec().id);
  communicator.collect(counted_, wire_);
  if (failed()) buried_.push_back(std::move(found->second));
  communicators_.erase(found);
}

PreparedPlan& Engine::prepare(Communicator& communicator, const PlanChoice& choice, Bytes bytes) {
  std::lock_guard lock(mutex_);
  return communicator.prepare(choice, bytes);
}

void Engine::learn(Communicator& communicator, const Machine& machine) {
  std::lock_guard lock(mutex_);
  communicator.learn(machine);
}

void Engine::time_dimensions(Communicator& communicator) {
  std::lock_guard lock(mutex_);
  communicator.time_dimensions();
}

Operation* Engine::start(Communicator& communicator, const Call& call, PreparedPlan* plan) {
  if (is_between_two(call.kind)) return start_together(communicator, {&call, 1})[0];
  std::lock_guard lock(mutex_);
  Operation* operation = communicator.start(call, plan ? *plan : communicator.plan_for(call));
  take_up(communicator);
  return operation;
}

void Engine::run(Communicator& communicator, const Call& call, PreparedPlan* plan) {
  if (Operation* operation = start_or_run(communicator, call, plan)) {
    wait(communicator, operation);
    finish(communicator, operation);
  }
}

// The lock is kept for the pauses: they last some microseconds, and nothing else is under way.
Operation* Engine::start_or_run(Communicator& communicator, const Call& call, PreparedPlan* plan) {
  // Who never waits must move the original library too: what the program sent with it may depend on that.
  if (calls_.fetch_add(1, std::memory_order_relaxed) % kGuestEvery == 0) waiting_.guest();
  if (is_between_two(call.kind)) return start(communicator, call, plan);
  std::lock_guard lock(mutex_);
  PreparedPlan& prepared = plan ? *plan : communicator.plan_for(call);
  bool alone = active_.empty();
  Operation* operation = alone ? communicator.run(call, prepared, std::min(waiting_.spins, kPausesAtOnce))
                               : communicator.start(call, prepared);
  if (operation) take_up(communicator);
  return operation;
}

// What has just been queued there.
void Engine::take_up(Communicator& communicator) {
  if (std::find(active_.begin(), active_.end(), &communicator) == active_.end())
    active_.push_back(&communicator);
  communicator.advance();
}

std::vector<Operation*> Engine::start_together(Communicator& communicator, std::span<const Call> calls) {
  if (!std::all_of(calls.begin(), calls.end(), [](const Call& call) { return is_between_two(call.kind); }))
    throw Error("only sends and receives can be started together");
  std::lock_guard lock(mutex_);
  std::vector<Operation*> operations = communicator.start_together(calls);
  take_up(communicator);
  return operations;
}

bool Engine::test(Operation* operation) {
  bool moved = false;
  return look(operation, moved);
}

void Engine::finish(Communicator& communicator, Operation* operation) {
  std::lock_guard lock(mutex_);
  if (!failed()) communicator.retire(operation);  // after a failure the transports may still hold on to it
}

bool Engine::look(Operation* operation, bool& moved) {
  std::lock_guard lock(mutex_);
  if (failed()) return true;
  moved = progress_locked();
  return operation->done() || failed();
}

// Pause, or yield, while an answer is likely within microseconds, then sleep until a peer or the wire wakes
// us, and never long: the original library must be moved too.
void Engine::wait(Communicator& communicator, Operation* operation) {
  bool wire = communicator.grid().spans_hosts();
  bool deaf = wire && fabrics_.wire->wake_fd() < 0;
  bool hears_wire = wire && operation->prepared().hears_wire;
  int brief_yields = operation->call().bytes() <= kBrief ? waiting_.wire_yields : 0;
  int rounds = !wire ? waiting_.spins : deaf ? waiting_.deaf_yields : brief_yields;
  Nanoseconds longest = deaf ? std::min(waiting_.longest_sleep, kLongestDeafSleep) : waiting_.longest_sleep;
  Nanoseconds began = 0, next_sleep = kFirstSleep, warned = waiting_.stall_warning;
  for (int idle = 0;;) {
    bool moved = false;
    // Who hears from this host only sees it without the lock and without asking the kernel; the rest (room
    // for a message, another thread's work, other communicators) is looked for now and then.
    bool worth_it = hears_wire || idle % kLookEvery == 0 || idle >= rounds || fabrics_.local->has_arrived();
    if (worth_it && look(operation, moved)) return;
    idle = moved ? 0 : idle + 1;
    if (idle < rounds) {
      next_sleep = kFirstSleep;
      wire ? static_cast<void>(::sched_yield()) : pause_a_moment();
      if (idle % kGuestEvery == kGuestEvery - 1) waiting_.guest();
      continue;
    }
    waiting_.guest();
    if (began == 0) began = now();
    if (sleep(operation, next_sleep)) return;
    next_sleep = std::min(next_sleep * 2, longest);
    if (Nanoseconds waited = now() - began; warned > 0 && waited > warned) {
      warn_of_stall(communicator, waited);
      warned *= 2;
    }
  }
}

// One sleep; true when the operation is done.
bool Engine::sleep(Operation* operation, Nanoseconds at_most) {
  std::uint32_t announced = fabrics_.local->announce_sleep();
  bool moved = false;
  bool done = look(operation, moved);
  if (done || moved) {
    fabrics_.local->cancel_sleep();
  } else {
    fabrics_.local->sleep(announced, at_most, fabrics_.wire ? fabrics_.wire->wake_fd() : -1);
  }
  return done;
}

void Engine::warn_of_stall(const Communicator& communicator, Nanoseconds waited) {
  std::lock_guard lock(mutex_);
  const Operation* operation = communicator.under_way();
  if (!operation) return;
  std::string whom;
  for (Rank rank : communicator.waiting_for()) whom += (whom.empty() ? "" : ", ") + std::to_string(rank);
  log_warning(fmt::format("waiting for {} s in {} (call {} of a communicator of {}) for rank {}",
                          waited / 1'000'000'000, describe(operation->call()),
                          operation->seq() & ~kBetweenTwo, communicator.size(), whom));
}

bool Engine::progress() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && !failed() && progress_locked();
}

bool Engine::progress_locked() {
  bool moved = fabrics_.local->progress(*this);
  if (fabrics_.wire) moved |= fabrics_.wire->progress(*this);
  for (std::size_t i = 0; i < active_.size();) {
    Communicator& communicator = *active_[i];
    moved |= communicator.advance();
    if (!communicator.problem().empty()) {
      fail_locked(communicator.problem());
      return true;
    }
    if (communicator.idle()) {
      active_[i] = active_.back();
      active_.pop_back();
    } else {
      ++i;
    }
  }
  return moved;
}

void Engine::deliver(const Header& header, const View& view) {
  auto found = communicators_.find(header.comm);
  if (found == communicators_.end()) {
    early_.push_back({header, view});
    return;
  }
  if (std::string problem = found->second->take(header, view); !problem.empty()) fail_locked(problem);
}

std::byte* Engine::place_for(const Header& header) {
  auto found = communicators_.find(header.comm);
  return found == communicators_.end() ? nullptr : found->second->place_for(header);
}

void Engine::peer_failed(Rank peer, const std::string& why) {
  fail_locked(fmt::format("rank {} of the job is gone ({})", peer, why));
}

std::string Engine::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Engine::fail(const std::string& why) {
  std::lock_guard lock(mutex_);
  fail_locked(why);
}

// Only said once: the first cause is the one that helps.
void Engine::fail_locked(const std::string& why) {
  if (failed()) return;
  failure_ = why;
  failed_.store(true, std::memory_order_release);
}

void Engine::hold_helper() {
  helper_holds_.fetch_add(1, std::memory_order_acq_rel);
  std::lock_guard lock(helper_mutex_);
  if (!helper_.joinable()) {
    SignalsBlocked blocked;
    try {
      helper_ = std::thread([this] { help(); });
    } catch (const std::system_error&) {
      // No thread to be had: the program's own waits move the operation.
    }
  }
  helper_wakes_.notify_one();
}

void Engine::release_helper() { helper_holds_.fetch_sub(1, std::memory_order_acq_rel); }

bool Engine::progress_or_fail() {
  try {
    return progress();
  } catch (const std::exception& error) {
    fail(error.what());
    return false;
  }
}

void Engine::help() {
  Nanoseconds pause = kFirstSleep;
  std::unique_lock lock(helper_mutex_);
  while (!helper_ends_) {
    if (helper_holds_.load(std::memory_order_acquire) == 0) {
      helper_wakes_.wait(lock);
      continue;
    }
    lock.unlock();
    bool moved = progress_or_fail();
    pause = moved ? kFirstSleep : std::min<Nanoseconds>(pause * 2, 500'000);
    lock.lock();
    if (!moved) helper_wakes_.wait_for(lock, std::chrono::nanoseconds(pause));
  }
}

}  // namespace ddl
