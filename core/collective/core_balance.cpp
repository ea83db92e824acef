#include "core/collective/core_balance.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace ddl {
namespace {

std::vector<int> cpus_in(const cpu_set_t& set) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

std::optional<int> better_cpu(std::size_t me, std::span<const int> cpu_of, std::span<const int> usable) {
  const int mine = cpu_of[me];
  auto ranks_on = [&](int cpu) { return std::count(cpu_of.begin(), cpu_of.end(), cpu); };
  const auto behind = cpu_of.subspan(me + 1);
  if (usable.empty() || std::find(behind.begin(), behind.end(), mine) != behind.end()) return std::nullopt;
  const int least = *std::min_element(usable.begin(), usable.end(),
                                      [&](int a, int b) { return ranks_on(a) < ranks_on(b); });
  if (ranks_on(mine) < ranks_on(least) + 2) return std::nullopt;
  return least;
}

CoreBalance::CoreBalance(std::vector<Activity*> ranks, std::size_t me)
    : ranks_(std::move(ranks)), me_(me), cpu_of_(ranks_.size(), -1) {}

void CoreBalance::look() {
  const int mine = ::sched_getcpu();
  std::atomic<std::int32_t>& shown = ranks_[me_]->cpu;
  if (shown.load(std::memory_order_relaxed) != mine + 1) shown.store(mine + 1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    cpu_of_[i] = ranks_[i]->cpu.load(std::memory_order_relaxed) - 1;
  if (std::count(cpu_of_.begin(), cpu_of_.end(), mine) < 2) return;
  const Nanoseconds when = now();
  if (when - moved_ < pause_) return;
  cpu_set_t may_use;
  if (::sched_getaffinity(0, sizeof(may_use), &may_use) != 0) return;
  const std::optional<int> better = better_cpu(me_, cpu_of_, cpus_in(may_use));
  if (!better) return;
  cpu_set_t there;
  CPU_ZERO(&there);
  CPU_SET(*better, &there);
  if (::sched_setaffinity(0, sizeof(there), &there) != 0) return;
  ::sched_setaffinity(0, sizeof(may_use), &may_use);
  shown.store(*better + 1, std::memory_order_relaxed);
  pause_ = when - moved_ > 4 * pause_ ? kLeastPause : std::min(2 * pause_, kMostPause);
  moved_ = when;
}

}  // namespace ddl
