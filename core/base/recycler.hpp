// Recycler: objects that are given out and come back, about in the order in which they were given out.
// Nothing is allocated once there are as many as are out at the same time.
//
// The rule: who has an entry releases it once, and does not touch it afterwards; one that never comes back
// lives as long as the recycler. Thread safety: all.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ddl {

template <class T>
class Recycler {
 public:
  struct Entry : T {
    void release() { is_free_.store(true, std::memory_order_release); }

   private:
    friend class Recycler;
    std::atomic<bool> is_free_{false};
  };

  /// As its last user left it.
  Entry& take() {
    std::lock_guard lock(mutex_);
    if (entries_.empty() || !entries_[oldest_]->is_free_.load(std::memory_order_acquire))
      entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(oldest_), std::make_unique<Entry>());
    Entry& taken = *entries_[oldest_];
    taken.is_free_.store(false, std::memory_order_relaxed);
    oldest_ = (oldest_ + 1) % entries_.size();
    return taken;
  }

 private:
  std::mutex mutex_;                             // of what follows
  std::vector<std::unique_ptr<Entry>> entries_;  // a ring, in the order in which they were given out
  std::size_t oldest_ = 0;
};

}  // namespace ddl
