// Whether the process that has started this one, on this host, still reaches those that it talks to: for who
// waits for the starter alone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

namespace ddl {

/// The far address of one of those sockets (by inode) on which the kernel has sent, or probed, at least so
/// many times in vain, "" none. `table`: what /proc/PID/net/tcp has. Of IPv4.
std::string unanswered_in(const std::string& table, const std::set<std::uint64_t>& sockets, unsigned times);

/// Of the connections of that process; "" where there is none, or /proc does not tell.
std::string unanswered_connection_of(pid_t pid, unsigned times);

}  // namespace ddl
