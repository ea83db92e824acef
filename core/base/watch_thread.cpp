#include "core/base/watch_thread.hpp"

#include <chrono>
#include <system_error>
#include <utility>

#include "core/base/signals.hpp"

namespace ddl {

void WatchThread::start(std::function<void()> body) {
  SignalsBlocked blocked;
  try {
    thread_ = std::thread(std::move(body));
  } catch (const std::system_error&) {
    // No thread to be had.
  }
}

void WatchThread::end() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool WatchThread::sleep(Nanoseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::nanoseconds(time), [this] { return ends_; });
}

}  // namespace ddl
