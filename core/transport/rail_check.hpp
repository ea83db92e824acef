// Does a rail carry anything between two hosts? An interface that is up may hang on a dead switch, be closed
// by a firewall, or belong to a network that merely has the same name as another host's.
//
// Every rank listens on each of its rails, with a socket that nobody accepts from, since the kernel answers
// for it. One rank per host connects to those of some other hosts, on all rails at once, while the job is set
// up: a reachability probe. The rule a user can break: listeners stay open until everybody has probed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/transport/tcp.hpp"

namespace ddl {

class RailListeners {
 public:
  /// Throws Error naming the interface.
  explicit RailListeners(const std::vector<TcpRail>& rails);
  std::uint16_t port(std::size_t rail) const { return ports_[rail]; }

 private:
  std::vector<Socket> listeners_;
  std::vector<std::uint16_t> ports_;
};

/// From one of this host's addresses to the listener of another host.
struct RailProbe {
  std::string from, to;
  std::uint16_t port;
};

/// For each of them, "" when it was answered, else why not. Returns when all are answered or failed, at the
/// latest after `timeout_s`.
std::vector<std::string> probe_rails(const std::vector<RailProbe>& probes, double timeout_s);

/// The hosts that `from` tries: those 1, 2, 4, ... places further on, so that everybody tries and is tried,
/// the next in a ring among them, and nobody opens more connections than the logarithm of the hosts. Pure.
std::vector<HostIndex> hosts_to_try(HostIndex from, HostIndex hosts);

}  // namespace ddl
