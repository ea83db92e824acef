// YieldsAwhile: for a thread that waits and would rather not be woken.
//
// Thread safety: none, of one thread.
#pragma once

#include "core/base/clock.hpp"
#include "core/base/pause.hpp"
#include "core/base/types.hpp"

namespace ddl {

/// Yields until so much time has gone by, or until a yield takes so long that another thread must have had
/// the core.
class YieldsAwhile {
 public:
  explicit YieldsAwhile(Nanoseconds longest) : longest_(longest) {}
  /// False when it is time to sleep.
  bool yield() {
    if (longest_ == 0) return false;
    const Nanoseconds before = now();
    if (since_ == 0) since_ = before;
    if (before - since_ > longest_) return false;
    if (!yield_a_moment()) longest_ = 0;
    return true;
  }
  /// What was waited for has come: the time begins anew.
  void restart() { since_ = 0; }

 private:
  Nanoseconds longest_, since_ = 0;
};

}  // namespace ddl
