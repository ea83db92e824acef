// CoreBalance: keeps the ranks of a host, where they outnumber its cores, from crowding on a few of them.
//
// Ranks that wait for each other and yield are always ready to run, and each runs for microseconds: the
// kernel sees load everywhere and leaves three of four ranks on one of two cores for seconds (a third of all
// jobs; a barrier takes 3.3 us there instead of 1.8). So each says where it is, and who is one of too many
// moves. Afterwards it may run where it could before, and the kernel may move it again.
//
// Where something else has the other core the kernel moves the rank back. So who has moved, or found that it
// may not, stays for a while: twice as long each time, until it has had nothing to do for four times as long.
//
// Thread safety: one call at a time.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/base/clock.hpp"
#include "core/trace/activity.hpp"

namespace ddl {

/// Where a rank was last seen.
struct PlaceOfRank {
  int cpu = -1;        // -1: nobody knows
  bool stays = false;  // it does not move now, or may not
};

/// The CPU, of those it may use, to which the rank at `me` should move. Nothing: its own CPU has less than
/// two ranks more than any of them, or another rank there, behind `me`, is the one to move.
std::optional<int> better_cpu(std::size_t me, std::span<const PlaceOfRank> ranks,
                              std::span<const int> usable);

class CoreBalance {
 public:
  /// Of the ranks of this host, in the same order on each; they must outlive it. `me` is one of them.
  CoreBalance(std::vector<Activity*> ranks, std::size_t me, Nanoseconds shortest_stay = 5'000'000);
  ~CoreBalance();
  CoreBalance(const CoreBalance&) = delete;
  CoreBalance& operator=(const CoreBalance&) = delete;

  /// To be called again and again, by a thread that makes calls which wait for the others.
  void look_now_and_then() {
    if (++calls_ % kEvery == 0) look();
  }

 private:
  static constexpr std::uint32_t kEvery = 32;
  static constexpr Nanoseconds kLongestStay = 10'000'000'000;
  void look();
  void show(PlaceOfRank place);
  void stay_for_a_while();

  const std::vector<Activity*> ranks_;
  const std::size_t me_;
  const Nanoseconds shortest_;
  std::uint32_t calls_ = 0;
  std::vector<PlaceOfRank> places_;  // of all ranks, at the last look
  std::vector<int> usable_;          // by this thread, as far as it knows
  Nanoseconds stays_for_, stays_until_ = 0;
};

}  // namespace ddl
