// StarterWatch: sees from outside whether mpirun has lost its way at its end, and which of its processes it
// leaves behind.
//
// When a rank is killed while it connects to PMIx, Open MPI 4's mpirun ends the job, and then waits for ever
// for a lock of its own (PMIX ERROR: UNREACHABLE, then PMIx_server_finalize). It then has no children any
// more, and its main thread stays in one and the same futex call.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

namespace ddl {

/// What was seen of mpirun.
struct StarterSeen {
  bool has_children = false;
  // Its main thread's system call with arguments where that is a futex's, else "".
  std::string waits_for_lock;
};

class StarterWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Looks at that process. Whether it is stuck.
  bool look(pid_t starter);
  /// The rule of it: it has had children, has none, and has waited for the same lock for five seconds.
  bool is_stuck(const StarterSeen& seen, Time when);
  /// It has not ended by itself: what has become of its processes it cannot know.
  void was_killed() { is_killed_ = true; }
  /// Processes that the starter had started, and that have become this one's children: it must be dead, and
  /// this process a subreaper. Of one that was killed also those that nobody had seen before, but not what
  /// had lost its parent earlier: that belongs to nobody by its own will.
  std::vector<pid_t> left_behind() const;

 private:
  bool had_children_ = false;
  std::string lock_;
  Time since_{};
  bool is_killed_ = false;
  std::set<pid_t> started_;
  std::set<pid_t> strays_;  // that had lost their parents before the starter ended
};

}  // namespace ddl
