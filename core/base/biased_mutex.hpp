// BiasedMutex: a mutex that costs next to nothing as long as one thread alone takes it.
//
// The first thread to lock it becomes its owner. The owner takes it with a plain store and a plain load, no
// locked instruction: such a one waits until everything stored before is visible, and what was stored for
// another process, a cache line of that one's, takes a tenth of a microsecond. Another thread says that it
// comes, makes the owner's processor see that (membarrier), and waits until the owner has left. That is dear,
// so after a few such visits that come soon after one another the bias ends for good, and all take turns by
// the mutex within.
//
// Where the kernel has no membarrier, and under the thread sanitizer, which knows nothing of it, it is that
// mutex from the beginning. Thread safety: it is Lockable; who locked it unlocks it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "core/base/types.hpp"

namespace ddl {

class BiasedMutex {
 public:
  BiasedMutex() = default;
  BiasedMutex(const BiasedMutex&) = delete;
  BiasedMutex& operator=(const BiasedMutex&) = delete;
  /// Tells the kernel now that this process uses membarrier, which the first lock() would. Worth it while the
  /// process has one thread: then it takes a microsecond, later 11 ms, until all processors have been seen.
  static void prepare();

  void lock() {
    if (!enter()) lock_within();
  }
  bool try_lock() { return enter() || try_lock_within(); }
  void unlock() {
    if (busy_.load(std::memory_order_relaxed) && is_owner())
      busy_.store(false, std::memory_order_release);
    else
      unlock_within();
  }
  /// Whether the owner, if there is one, still has it for less.
  bool is_biased() const { return !visited_.load(std::memory_order_relaxed); }

 private:
  bool is_owner() const { return owner_.load(std::memory_order_relaxed) == pthread_self(); }
  // Pairs with visit(): either the visitor sees that the owner is in, or the owner that somebody comes.
  bool enter() {
    if (!is_owner()) return false;
    busy_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!visited_.load(std::memory_order_acquire)) return true;
    busy_.store(false, std::memory_order_release);
    return false;
  }
  void lock_within();
  bool try_lock_within();
  void unlock_within();
  void claim();
  bool visit(bool waits);

  std::atomic<pthread_t> owner_{};    // never changes once it is set
  std::atomic<bool> busy_{false};     // the owner is in without the mutex within
  std::atomic<bool> visited_{false};  // another has that, or all have to take it
  std::mutex within_;
  // Under the mutex within.
  bool is_claimed_ = false, has_bias_ = false;
  int visits_ = 0;  // that came soon after the one before
  Nanoseconds visited_at_ = 0;
};

}  // namespace ddl
