// Ranks without the shim: they never come to where the others meet, which then wait as long as gloo does. So
// who waits for long looks at the processes of the job on this host, and says what it sees.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/types.hpp"
#include "core/base/watch_thread.hpp"

namespace ddl::gloo {

/// A process of this job on this host. One rank may have several: what its program has started.
struct JobProcess {
  pid_t id = 0;
  Rank rank = 0;  // as RANK says
  bool has_gloo = false, has_shim = false;
};

/// Those that were started with this process's MASTER_ADDR and MASTER_PORT, and with a rank. A program that
/// sets these itself is not seen.
std::vector<JobProcess> processes_of_this_job();

/// Of ranks that have gloo, and the shim nowhere, one each, by rank.
std::vector<JobProcess> without_shim(const std::vector<JobProcess>& processes);

/// What `me` has to say of these: "" where there are none, or a lower rank says it.
std::string text_of_those_without_shim(const std::vector<JobProcess>& processes, pid_t me);

/// As long as it lives, a thread that says so after some seconds.
class MissingShimWatch {
 public:
  MissingShimWatch() {
    thread_.start([this] { watch(); });
  }

 private:
  void watch();

  WatchThread thread_;
};

}  // namespace ddl::gloo
