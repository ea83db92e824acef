// TcpTransport: messages between hosts over plain TCP, one listening socket per rail. A connection is opened
// at the first message to a peer on a rail. Where there is one rail, a peer that has connected is answered on
// its connection; otherwise each direction has one.
//
// A message is handed to the kernel with one system call straight from the caller's memory, and received into
// the block that its view lends: two copies per byte, both the kernel's, and a third where there are several
// rails. What the kernel does not take waits by reference. No thread, no handshake but the connection's own.
//
// Where there are several rails, one that breaks, that nobody answers on, whose link is down or that has
// become much slower than another is given up for that peer: what may not have come there is sent again over
// another, and it is tried again ever more rarely. A peer has failed when no rail reaches it, however slowly.
//
// Peers are known by a secret of the rail that its address carries; whoever does not know it is refused.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/net/socket.hpp"
#include "core/transport/lost_rails.hpp"
#include "core/transport/wire.hpp"

namespace ddl {

/// An interface to use and its address, IPv4 or IPv6.
struct TcpRail {
  std::string interface, address;
};

/// Listens there; writes the address and the port to `local`. Throws Error naming the interface.
Socket listen_on(const TcpRail& rail, Endpoint& local);

class TcpTransport : public WireTransport {
 public:
  /// Listens on each rail. `me`: this rank in the job. Throws Error naming the interface.
  TcpTransport(const std::vector<TcpRail>& rails, Rank me);
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  WireAddress address(std::size_t rail) const override;
  void set_rails(const std::vector<std::size_t>& interface_of_rail,
                 std::vector<std::vector<WireAddress>> addresses) override;
  bool send(const Outgoing& message) override;
  void flush(std::span<const Rank> to, std::uint32_t& unfinished) override;
  bool has_left(Rank rank) const override;
  bool push(Bytes at_least) override;
  bool progress(MessageHandler& handler) override;
  void say_failed(const std::string& why) override;
  /// Of several rails that one carries no more, to nobody: what may not have come goes over another.
  void give_up(std::size_t rail, const std::string& why, Loss loss = Loss::of_a_peer);
  Bytes bytes_sent(std::size_t rail) const override;
  int wake_fd() const override;
  void close() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddl
