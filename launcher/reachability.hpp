// Can mpirun's remote shell reach every host? Asked before the start, all hosts at once and with a time
// limit, since mpirun itself waits for minutes and then explains everything but the host. -s skips it.
#pragma once

#include "launcher/job_spec.hpp"

namespace ddl {

/// The remote shell mpirun will use, as words: the user's plm_rsh_agent, else ssh, with plm_rsh_args (or what
/// Open MPI 5 calls them). Pure. Empty: mpirun will not use one.
Strings remote_shell(const Options& options, const System& world);

/// The hosts of the allocation that are not this machine, by name alone. Pure.
HostList remote_hosts(const Allocation& allocation, const std::string& this_host);

/// What a remote shell's complaint means for the user, in a few words. Pure.
std::string last_line(const std::string& text);

/// Throws LaunchError naming the hosts that cannot be reached.
void check_hosts(const JobInputs& in);

}  // namespace ddl
