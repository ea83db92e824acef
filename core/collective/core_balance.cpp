#include "core/collective/core_balance.hpp"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <utility>

#include "core/base/cpu_set.hpp"

namespace ddl {
namespace {

// As Activity::cpu says it.
std::int32_t word_of(PlaceOfRank place) { return place.stays ? -(place.cpu + 1) : place.cpu + 1; }
PlaceOfRank place_of(std::int32_t word) { return {std::abs(word) - 1, word < 0}; }

// The calling thread; it may run where it could before, then. Who has bound it elsewhere meanwhile is obeyed.
// A kernel that let it follow its cgroup takes what it could use for the program's own wish from now on.
bool move_to(int cpu) {
  CpuSet before, there, now;
  there.add(cpu);
  if (!before.read() || !there.apply()) return false;
  if (now.read() && now != there) return true;
  if (before.apply()) return true;
  CpuSet all;
  for (int any = 0; any < CpuSet::kMost; ++any) all.add(any);
  all.apply();
  return true;
}

}  // namespace

std::optional<int> better_cpu(std::size_t me, std::span<const PlaceOfRank> ranks,
                              std::span<const int> usable) {
  const int mine = ranks[me].cpu;
  auto ranks_on = [&](int cpu) {
    return std::count_if(ranks.begin(), ranks.end(), [=](const PlaceOfRank& one) { return one.cpu == cpu; });
  };
  auto would_move = [=](const PlaceOfRank& one) { return one.cpu == mine && !one.stays; };
  const auto behind = ranks.subspan(me + 1);
  if (usable.empty() || std::any_of(behind.begin(), behind.end(), would_move)) return std::nullopt;
  auto least = std::numeric_limits<std::ptrdiff_t>::max();
  std::vector<int> best;
  for (int cpu : usable) {
    const auto there = ranks_on(cpu);
    if (there < least) best.clear();
    least = std::min(least, there);
    if (there == least) best.push_back(cpu);
  }
  if (ranks_on(mine) < least + 2) return std::nullopt;
  return best[me % best.size()];  // ranks of several CPUs that move at once mostly go to different ones
}

CoreBalance::CoreBalance(std::vector<Activity*> ranks, std::size_t me, Nanoseconds shortest_stay)
    : ranks_(std::move(ranks)),
      me_(me),
      shortest_(shortest_stay),
      places_(ranks_.size()),
      usable_(usable_cpus()),
      stays_for_(shortest_stay) {}

CoreBalance::~CoreBalance() { show({}); }

void CoreBalance::show(PlaceOfRank place) {
  std::atomic<std::int32_t>& shown = ranks_[me_]->cpu;
  if (shown.load(std::memory_order_relaxed) != word_of(place))
    shown.store(word_of(place), std::memory_order_relaxed);
}

void CoreBalance::look() {
  const int mine = ::sched_getcpu();
  if (mine < 0) return;
  const bool stays = now() < stays_until_;
  show({mine, stays});
  if (stays) return;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    places_[i] = place_of(ranks_[i]->cpu.load(std::memory_order_relaxed));
  if (!better_cpu(me_, places_, usable_)) return;
  usable_ = usable_cpus();  // the program may have bound it since
  const std::optional<int> better = better_cpu(me_, places_, usable_);
  const bool has_moved = better && move_to(*better);
  stay_for_a_while();
  show({has_moved ? *better : mine, true});
}

void CoreBalance::stay_for_a_while() {
  const Nanoseconds when = now();
  stays_for_ = when - stays_until_ > 4 * stays_for_ ? shortest_ : std::min(2 * stays_for_, kLongestStay);
  stays_until_ = when + stays_for_;
}

}  // namespace ddl
