// ShortWait: how long who makes a small call waits for the others before an operation does so.
//
// Thread safety: none, of one thread.
#pragma once

#include <sched.h>

#include <utility>

#include "core/base/pause.hpp"

namespace ddl {

class ShortWait {
 public:
  static ShortWait none() { return {0, false}; }
  static ShortWait pauses(int most) { return {most, false}; }
  /// Where ranks share cores: until so many yields, or until one but the first after which another thread has
  /// had the core for a slice of the scheduler.
  static ShortWait yields(int most) { return {most, true}; }

  /// Waits a moment; false, without waiting, once it is over.
  bool once() {
    if (left_ <= 0) return false;
    --left_;
    if (!yields_) {
      pause_a_moment();
      return true;
    }
    // Most waits end with the first yield: two looks at the clock would be a fifth of it.
    if (std::exchange(is_first_, false))
      ::sched_yield();
    else if (!yield_a_moment())
      left_ = 0;
    return true;
  }

  /// Whether a look at the clock is nothing to such a wait.
  bool yields() const { return yields_; }

 private:
  ShortWait(int most, bool yields) : left_(most), yields_(yields) {}
  int left_;
  bool yields_, is_first_ = true;
};

}  // namespace ddl
