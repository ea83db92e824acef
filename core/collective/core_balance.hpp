// CoreBalance: keeps the ranks of a host, where they outnumber its cores, from crowding on a few of them.
//
// Ranks that wait for each other and yield are always ready to run, and each runs for microseconds: the
// kernel sees load everywhere and leaves three of four ranks on one of two cores for seconds (a third of all
// jobs; a barrier takes 3.3 us there instead of 1.8). So each says where it is, and who is one of too many
// moves. It stays as free as it was: the kernel may move it again.
//
// Where something else has the other core the kernel moves the rank back; so it waits twice as long each
// time.
//
// Thread safety: none; of the thread that makes the calls.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/base/clock.hpp"
#include "core/trace/activity.hpp"

namespace ddl {

/// The CPU, of those it may use, to which the rank at `me` should move: nothing where it is not one of two
/// or more too many, or another rank of its CPU is to move. `cpu_of`: where each rank of the host is, -1
/// unknown.
std::optional<int> better_cpu(std::size_t me, std::span<const int> cpu_of, std::span<const int> usable);

class CoreBalance {
 public:
  /// Of the ranks of this host, in the same order on each; they must outlive it. `me` is one of them.
  CoreBalance(std::vector<Activity*> ranks, std::size_t me);

  /// To be called again and again, between calls that wait for the others.
  void look_now_and_then() {
    if (++calls_ % kEvery == 0) look();
  }

 private:
  static constexpr std::uint32_t kEvery = 32;
  static constexpr Nanoseconds kLeastPause = 5'000'000, kMostPause = 10'000'000'000;
  void look();

  const std::vector<Activity*> ranks_;
  const std::size_t me_;
  std::uint32_t calls_ = 0;
  std::vector<int> cpu_of_;
  Nanoseconds pause_ = kLeastPause, moved_ = 0;
};

}  // namespace ddl
