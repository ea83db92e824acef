// WatchThread: a thread that looks now and then and sleeps in between, until its owner ends it. It takes none
// of the program's signals.
//
// Declared behind what it looks at, so that it ends first. Thread safety: start() once, end() any time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/types.hpp"

namespace ddl {

class WatchThread {
 public:
  WatchThread() = default;
  ~WatchThread() { end(); }
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

  /// Where no thread is to be had nobody looks.
  void start(std::function<void()> body);
  void end();
  /// For the body: false when it is to end.
  bool sleep(Nanoseconds time);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ddl
