// TrialBudget: what trying out ways may take of a job's time. All its communicators share one. Thread safety:
// all members.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "core/base/clock.hpp"
#include "core/base/types.hpp"

namespace ddl {

class TrialBudget {
 public:
  /// Of the time since then at most a twentieth goes into trials.
  static constexpr Nanoseconds kShare = 20;

  explicit TrialBudget(Nanoseconds began) : began_(began) {}

  Nanoseconds elapsed() const { return now() - began_; }
  Nanoseconds spent() const { return spent_.load(std::memory_order_relaxed); }
  void spend(Nanoseconds time) { spent_.fetch_add(time, std::memory_order_relaxed); }
  /// So many ranks have met, or agreed on a few numbers, and that took so long here.
  void note_meeting(Rank ranks, Nanoseconds took) {
    std::lock_guard lock(mutex_);
    auto [least, is_first] = least_.try_emplace(ranks, took);
    if (!is_first && took < least->second) least->second = took;
  }
  /// What that takes at least, where nobody comes late; 0: they have not met yet.
  Nanoseconds meeting(Rank ranks) const {
    std::lock_guard lock(mutex_);
    auto least = least_.find(ranks);
    return least == least_.end() ? 0 : least->second;
  }
  /// Of numbers that all ranks have agreed on.
  static bool allows(Nanoseconds cost, Nanoseconds spent, Nanoseconds elapsed) {
    return (spent + cost) * kShare <= elapsed;
  }

 private:
  const Nanoseconds began_;
  std::atomic<Nanoseconds> spent_{0};
  mutable std::mutex mutex_;
  std::map<Rank, Nanoseconds> least_;  // by how many have met
};

}  // namespace ddl
