// Which connections of a process the far end leaves unanswered, as the kernel shows them: for who cannot ask
// the socket itself, since it belongs to another process, or to a library.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ddl {

/// The kernel sends again after 0.2 s at least, then ever twice as long: so many times are six seconds.
inline constexpr unsigned kTimesInVain = 5;

/// The far addresses of those of these sockets (by inode) on which the kernel has sent, or probed, at least
/// so many times in vain. `table`: what /proc/PID/net/tcp has. Of IPv4. Pure.
std::vector<std::string> unanswered_in(const std::string& table, const std::set<std::uint64_t>& sockets,
                                       unsigned times);

/// Of the connections of that process; empty where /proc does not tell.
std::vector<std::string> unanswered_connections_of(pid_t pid);

}  // namespace ddl
