#include "core/plan/handover.hpp"

namespace ddl {
namespace {

// Who reads where the data is needs nobody to write meanwhile: there is nothing to overlap. Of a reduce the
// root may read, if it has one rank to hear from. That wins where the buffer is not written between two calls
// (2 ranks, 16 and 64 KiB, 1 and 4 MiB, staged and read: 2.8 and 1.6 us, 7.7 and 3.9, 79 and 53, 334 and
// 321), and loses where it is (2.8 and 4.5, 7.6 and 9.3, 106 and 211, 488 and 795).
bool can_single_copy(const HostMap& map, Task task, Bytes bytes, const PlanLimits& limits) {
  constexpr Bytes kMostReduced = 1 << 20;
  if (!limits.single_copy || map.hosts() > 1 || bytes <= kMostStaged) return false;
  if (task.kind == Kind::reduce) return map.ranks() == 2 && bytes <= kMostReduced;
  return !computes(task.kind) && !is_between_two(task.kind);
}

TaskChoice single_copy_of(TaskChoice choice, const PlanLimits& limits) {
  choice.handover = Handover::single_copy;
  if (!limits.segment) choice.segment = kSegmentOfAll;
  return choice;
}

// Which of the two ways within a host is taken until both are measured. What goes one way is staged, where
// two ranks share the work. So are blocks that stay in the caches on their way (2 ranks, all-to-all and
// all-gather, against single copies: 64 to 192 KiB 0.8; 512 KiB to 4 MiB 0.5 to 1.0; 8 and 16 MiB 1.1. 4
// ranks, all-gather of 96 to 256 KiB: 0.75). But where lines come slowly single copies are faster (2 ranks,
// 64 and 256 KiB, 1 and 4 MiB: all-to-all 0.65, 0.55, 0.8, 0.77; scatter 0.6, 0.45, 0.8, 0.7; gather 0.8,
// 0.7, 0.75, 0.8. 4 ranks on two cores, 128 KiB: 0.95, 0.35, 0.45). But of broadcasts only those where the
// root copies half of it (1.1 and, from 128 KiB on, 0.6 to 0.85): all read at once. Of up to 16 KiB it
// depends on the program: who sends one after the other is twice as fast if they are staged, who waits for
// the others in between a quarter slower.
bool is_single_copy_first(const HostMap& map, Task task, Bytes bytes, const PlanLimits& limits) {
  constexpr Bytes kInCaches = 4 << 20, kShort = 16 << 10;
  if (bytes <= kShort || task.kind == Kind::reduce) return false;
  if (limits.slow_lines) return task.kind != Kind::broadcast || (map.ranks() == 2 && bytes >= kLeastJoint);
  return !is_one_way(task.kind) && bytes > kInCaches;
}

// What one rank has for each other, where lines do not come slowly: short blocks are staged, long ones read.
// From a quarter of a MiB on both are alike where the machine is at its best, but staged ones take half as
// long again for whole jobs (2 ranks, two EPYC cores, MPI_Scatterv, the original, staged and read, medians of
// seven jobs: 32 KiB 5.5, 4.0 and 4.7 us, 64 KiB 8.5, 7.7 and 7.5, 128 KiB 14.6, 14.3 and 13.2, 256 KiB 27,
// 30 and 23, 1 MiB 104, 76 and 82, at worst 121, 122 and 83). What goes the other way is not: gathered, 1
// MiB, 105, 57 and 76.
TaskCandidate long_ones_read(TaskCandidate reads) {
  constexpr Bytes kShort = 64 << 10;
  reads.choice.most_staged = kShort;
  return reads;
}

}  // namespace

std::vector<TaskCandidate> with_single_copies(const HostMap& map, Task task, Bytes bytes,
                                              const PlanLimits& limits, std::vector<TaskCandidate> staged) {
  if (!can_single_copy(map, task, bytes, limits)) return staged;
  const TaskCandidate reads{single_copy_of(staged[0].choice, limits), staged[0].seconds};
  const bool is_first = is_single_copy_first(map, task, bytes, limits);
  // Of blocks that only pairs of ranks know the first calls would decide for all, which may be short ones, of
  // which both ways are the same.
  if (task.unequal && task.kind == Kind::all_to_all) {
    if (is_first) return {reads};
    return task.rooted == Rooted::scatter ? std::vector{long_ones_read(reads)} : staged;
  }
  staged.insert(staged.begin() + (is_first ? 0 : 1), reads);
  return staged;
}

}  // namespace ddl
