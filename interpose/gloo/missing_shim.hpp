// Ranks without the shim: they never come to where the others meet. Who has waited for that in vain looks at
// the processes of the job on this host, and says what it sees.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/types.hpp"

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

/// What `me` has to say of these: "" where a lower rank says it. Where all of these have the shim, others
/// have not.
std::string text_of_those_without_shim(const std::vector<JobProcess>& processes, pid_t me);

}  // namespace ddl::gloo
