// ReportKeeper: the report of a job that may not come to its end. While it lives, a sleeping thread writes
// now and then what has been counted so far, so that a job that dies or is interrupted has told what it did
// until then.
//
// Thread safety: the constructor and the destructor belong to one thread; `write` is called by another.
#pragma once

#include <functional>

#include "core/base/watch_thread.hpp"

namespace ddl {

class ReportKeeper {
 public:
  /// Calls `write` at once, then ever more rarely, and from the third second on every two seconds. Without a
  /// thread to be had it does nothing.
  explicit ReportKeeper(std::function<void()> write);

 private:
  void keep();

  const std::function<void()> write_;
  WatchThread thread_;  // last: it ends first, after a call of `write` under way
};

}  // namespace ddl
