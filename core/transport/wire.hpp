// WireTransport: a transport between hosts, one set of connections per rail.
//
// Life: construct (opens every interface) → address() of each, to be published → set_rails(), once, with what
// the peers published → messages → close(), after all ranks agreed that nothing is under way.
#pragma once

#include <vector>

#include "core/transport/transport.hpp"

namespace ddl {

using WireAddress = std::vector<std::byte>;  // what a peer needs to reach one rail; opaque to all others

class WireTransport : public Transport {
 public:
  virtual WireAddress address(std::size_t interface) const = 0;
  /// Which own interface is each rail, and addresses[rank in the job][rail]. Interfaces that are none are
  /// closed.
  virtual void set_rails(const std::vector<std::size_t>& interface_of_rail,
                         std::vector<std::vector<WireAddress>> addresses) = 0;
  /// Payload and header bytes handed to a rail so far.
  virtual Bytes bytes_sent(std::size_t rail) const = 0;
  /// Ends every connection; never takes longer than a second per peer.
  virtual void close() = 0;
};

}  // namespace ddl
