// ReportKeeper: the report of a job that may not come to its end. While it lives, a sleeping thread writes
// now and then what has been counted so far, so that a job that dies or is interrupted has told what it did
// until then.
//
// Thread safety: the constructor and the destructor belong to one thread; `write` is called by another.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ddl {

class ReportKeeper {
 public:
  /// Calls `write` at once and then every two seconds. Without a thread to be had it does nothing.
  explicit ReportKeeper(std::function<void()> write);
  /// Waits for a call of `write` under way.
  ~ReportKeeper();
  ReportKeeper(const ReportKeeper&) = delete;
  ReportKeeper& operator=(const ReportKeeper&) = delete;

 private:
  void keep();

  const std::function<void()> write_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ddl
