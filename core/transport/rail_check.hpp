// Does a rail carry anything between two hosts? An interface that is up may hang on a dead switch, be closed
// by a firewall, or belong to a network that merely has the same name as another host's.
//
// Every rank opens a door on each of its rails: a listening socket that nobody accepts from, since the kernel
// answers for it. One rank per host knocks at those of some other hosts, on all rails at once, while the job
// is set up. The rule a user can break: doors stay open until everybody has knocked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/transport/tcp.hpp"

namespace ddl {

class RailDoors {
 public:
  /// Throws Error naming the interface.
  explicit RailDoors(const std::vector<TcpRail>& rails);
  std::uint16_t port(std::size_t rail) const { return ports_[rail]; }

 private:
  std::vector<Socket> listeners_;
  std::vector<std::uint16_t> ports_;
};

/// From one of this host's addresses to the door of another host.
struct Knock {
  std::string from, to;
  std::uint16_t port;
};

/// For each of them, "" when it was answered, else why not. Returns when all are answered or failed, at the
/// latest after `timeout_s`.
std::vector<std::string> knock(const std::vector<Knock>& knocks, double timeout_s);

/// The hosts that `from` tries: those 1, 2, 4, ... places further on, so that everybody tries and is tried,
/// the next in a ring among them, and nobody opens more connections than the logarithm of the hosts. Pure.
std::vector<HostIndex> hosts_to_try(HostIndex from, HostIndex hosts);

}  // namespace ddl
