#include "core/base/biased_mutex.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/clock.hpp"
#include "core/base/pause.hpp"

namespace ddl {
namespace {

// Then others come so often that what they cost is more than what the owner saves. Who only looks now and
// then, as the watch over stalls does, costs nothing.
constexpr int kMostVisits = 8;
constexpr Nanoseconds kSoon = 50'000'000;
constexpr int kPauses = 1000;  // for an owner that is in, before the processor is left to it

long membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

bool has_membarrier() {
#ifdef __SANITIZE_THREAD__
  return false;
#else
  static const bool has = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return has;
#endif
}

}  // namespace

void BiasedMutex::prepare() { has_membarrier(); }

void BiasedMutex::claim() {
  is_claimed_ = true;
  has_bias_ = has_membarrier();
  if (has_bias_)
    owner_.store(pthread_self(), std::memory_order_relaxed);
  else
    visited_.store(true, std::memory_order_relaxed);
}

// With the mutex within. False: the owner is in, and is not waited for.
bool BiasedMutex::visit(bool waits) {
  visited_.store(true, std::memory_order_relaxed);
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int i = 0; busy_.load(std::memory_order_acquire); ++i) {
    if (!waits) {
      visited_.store(false, std::memory_order_release);
      return false;
    }
    i < kPauses ? pause_a_moment() : static_cast<void>(::sched_yield());
  }
  const Nanoseconds at = now();
  visits_ = at - visited_at_ < kSoon ? visits_ + 1 : 1;
  visited_at_ = at;
  if (visits_ == kMostVisits) has_bias_ = false;  // and visited_ stays
  return true;
}

void BiasedMutex::lock_within() {
  within_.lock();
  if (!is_claimed_)
    claim();
  else if (has_bias_ && !is_owner())
    visit(true);
}

bool BiasedMutex::try_lock_within() {
  if (!within_.try_lock()) return false;
  if (!is_claimed_) {
    claim();
  } else if (has_bias_ && !is_owner() && !visit(false)) {
    within_.unlock();
    return false;
  }
  return true;
}

void BiasedMutex::unlock_within() {
  if (has_bias_) visited_.store(false, std::memory_order_release);
  within_.unlock();
}

}  // namespace ddl
