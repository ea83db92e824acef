// The part of Engine about its helper thread, which moves nonblocking calls while the program is away.
#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/arithmetic.hpp"
#include "core/base/clock.hpp"
#include "core/base/signals.hpp"
#include "core/collective/engine.hpp"
#include "core/collective/yields_awhile.hpp"

namespace ddl {
namespace {

// Calls that are worth waking the helper for, and how long a program must be away for that.
constexpr Bytes kLongOnWire = 64 << 10, kLongHere = 1 << 20;
constexpr Nanoseconds kAbsence = 200'000;
constexpr int kCredit = 8;  // times in vain until the helper is not called for every long call any more
// Between two looks at a program that may compute; and when there is nothing to look at any more.
constexpr Nanoseconds kFirstPause = 50'000, kLongestPause = 5'000'000, kParkAfter = 50'000'000;
// While the helper stands in, between two messages from other hosts: waking it for each of them takes longer
// than 64 KiB are on the wire (4 hosts x 2, not shaped: 0.40 of the time hidden, with yields 0.84).
constexpr Nanoseconds kYields = 50'000, kFirstNap = 50'000;

}  // namespace

// A call has started and is not done. The start itself may have taken long, by copying what it sends: the
// program is away from now on.
void Engine::tell_helper(const Call& call, const PreparedPlan& plan) {
  arithmetic_ = arithmetic();
  bool is_long = call.bytes() >= (plan.hears_wire ? kLongOnWire : kLongHere);
  if (is_long) last_start_.store(now(), std::memory_order_relaxed);
  if (helper_sleeps_.load() || (is_long && helper_credit_.load(std::memory_order_relaxed) > 0)) call_helper();
}

// Between a start and the first look at what is under way a program may compute: then the helper is of use.
void Engine::note_absence() {
  if (last_start_.load(std::memory_order_relaxed) == 0) return;
  Nanoseconds started = last_start_.exchange(0, std::memory_order_relaxed);
  if (started != 0 && now() - started > kAbsence) helper_credit_.store(kCredit, std::memory_order_relaxed);
}

// Waking costs a system call, and a core where ranks share them. So only a helper that has parked is woken,
// and for long calls one that has been of use lately. Any other looks now and then, and sees the call soon.
void Engine::call_helper() {
  std::lock_guard lock(helper_mutex_);
  helper_sleeps_.store(false, std::memory_order_relaxed);
  helper_is_called_ = true;
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

bool Engine::progress_or_fail() {
  std::lock_guard lock(mutex_);
  return progress_or_fail_locked();
}

// A thread of ours reduces with the arithmetic of who has started a call last, which may change at any time.
void Engine::take_arithmetic() {
  if (is_engine_thread()) set_arithmetic(arithmetic_);
}

bool Engine::progress_or_fail_locked() {
  take_arithmetic();
  try {
    return !failed() && progress_locked();
  } catch (const std::exception& error) {
    fail_locked(error.what());
    return false;
  }
}

// Or is at it: a round with large reductions takes long.
bool Engine::program_has_moved() {
  std::uint32_t rounds = rounds_.load(std::memory_order_relaxed);
  bool has = std::exchange(seen_rounds_, rounds) != rounds;
  return has || sleeping_.load(std::memory_order_relaxed) > 0 ||
         shared_.working.load(std::memory_order_relaxed) > 0 ||
         !std::unique_lock(mutex_, std::try_to_lock).owns_lock();
}

// A program that waits for its calls itself is left alone: it is looked at ever more rarely, soon again only
// after a call that called. Working for it then would take the core that it waits on.
void Engine::help() {
  is_engine_thread() = true;
  std::unique_lock lock(helper_mutex_);
  Nanoseconds pause = kFirstPause, idle_since = now();
  bool was_called = false;
  while (!helper_ends_) {
    helper_wakes_.wait_for(lock, std::chrono::nanoseconds(pause),
                           [this] { return helper_ends_ || helper_is_called_; });
    bool moved = program_has_moved();
    bool needed = shared_.going_on.load(std::memory_order_relaxed) > 0;
    if (needed || moved) idle_since = now();
    if (std::exchange(helper_is_called_, false)) {
      was_called = true;
      pause = kFirstPause;
      continue;
    }
    if (needed && !moved && !failed() && !helper_ends_) {
      lock.unlock();
      stand_in();
      lock.lock();
      helper_credit_.store(kCredit, std::memory_order_relaxed);
      pause = kFirstPause;
      idle_since = now();  // the program may have come back with calls under way
    } else {
      int credit = helper_credit_.load(std::memory_order_relaxed);
      if (was_called && credit > 0) helper_credit_.store(credit - 1, std::memory_order_relaxed);
      pause = std::min(2 * pause, kLongestPause);
    }
    was_called = false;
    if (now() - idle_since < kParkAfter) continue;
    // Who starts a call counts it first and looks whether the helper sleeps then: one of the two sees the
    // other.
    helper_sleeps_.store(true);
    if (shared_.going_on.load() == 0)
      helper_wakes_.wait(lock, [this] { return helper_ends_ || helper_is_called_; });
    helper_sleeps_.store(false, std::memory_order_relaxed);
    idle_since = now();
  }
}

// Moves the calls under way until there are none, the program does it again, or the engine ends with some
// that others have not come to.
void Engine::stand_in() {
  int idle = 0;
  YieldsAwhile yields(fabrics_.wire ? kYields : 0);
  while (shared_.going_on.load(std::memory_order_relaxed) > 0 && !failed() && !helper_ends_ &&
         !program_has_moved()) {
    if (progress_or_fail()) {
      idle = 0;
      yields.restart();
      continue;
    }
    if (yields.yield()) continue;
    Nanoseconds at_most = std::min(kFirstNap << std::min(idle++, 5), waiting_.longest_sleep);
    sleep_unless([this] { return progress_or_fail(); }, at_most);
  }
}

}  // namespace ddl
