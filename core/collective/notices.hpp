#pragma once

#include <atomic>
#include <cstddef>
#include <deque>

namespace ddl {

class Completion;

/// Completions that asked for a notice and are done, oldest first. Used under the engine's lock, but for
/// `any()`. A completion is added before it is marked done, so that who sees it done sees that there is a
/// notice.
class Notices {
 public:
  void add(Completion& completion) {
    queue_.push_back(&completion);
    count_.store(queue_.size(), std::memory_order_relaxed);
  }
  /// Null where there is none.
  Completion* take() {
    if (queue_.empty()) return nullptr;
    Completion* first = queue_.front();
    queue_.pop_front();
    count_.store(queue_.size(), std::memory_order_relaxed);
    return first;
  }
  /// Without the lock.
  bool any() const { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  std::deque<Completion*> queue_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace ddl
