// TrialBudget: what trying out ways may take of a job's time. All its communicators share one. Thread safety:
// all members.
#pragma once

#include <atomic>

#include "core/base/clock.hpp"

namespace ddl {

class TrialBudget {
 public:
  /// Of the time since then at most a twentieth goes into trials.
  static constexpr Nanoseconds kShare = 20;

  explicit TrialBudget(Nanoseconds began) : began_(began) {}

  Nanoseconds elapsed() const { return now() - began_; }
  Nanoseconds spent() const { return spent_.load(std::memory_order_relaxed); }
  void spend(Nanoseconds time) { spent_.fetch_add(time, std::memory_order_relaxed); }
  /// Of numbers that all ranks have agreed on.
  static bool allows(Nanoseconds cost, Nanoseconds spent, Nanoseconds elapsed) {
    return (spent + cost) * kShare <= elapsed;
  }

 private:
  const Nanoseconds began_;
  std::atomic<Nanoseconds> spent_{0};
};

}  // namespace ddl
