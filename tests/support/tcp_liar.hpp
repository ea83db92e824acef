// Rank 0 of a job on a TcpTransport, and a peer on another host that is only a socket: it knows the secret of
// the rail and writes what bytes it likes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>

#include "core/net/wait.hpp"
#include "core/transport/tcp.hpp"
#include "core/transport/tcp_stream.hpp"

namespace ddl::test {

class TcpLiar {
 public:
  explicit TcpLiar(Rank ranks) : honest_({{"lo", "127.0.0.1"}}, 0) {
    WireAddress address = honest_.address(0);  // a token and an endpoint, see tcp_impl.hpp
    std::memcpy(&token_, address.data(), sizeof(token_));
    std::memcpy(&remote_, address.data() + sizeof(token_), sizeof(remote_));
    listeners_ = listen_on(TcpRail{"lo", "127.0.0.1"}, local_);
    std::memcpy(address.data() + sizeof(token_), &local_, sizeof(local_));
    std::vector<std::vector<WireAddress>> addresses(static_cast<std::size_t>(ranks), {address});
    addresses[0] = {honest_.address(0)};
    honest_.set_rails({0}, addresses);
  }

  TcpTransport& honest() { return honest_; }
  Hello hello(Rank rank) const { return {Hello::kMagic, token_, static_cast<std::uint32_t>(rank), 0}; }
  /// A connection to the honest rank, which has not said hello.
  Socket connect() const {
    Socket socket = connect_to(remote_, Timeout(10));
    EXPECT_TRUE(socket.is_open());
    return socket;
  }
  /// The connection that the honest rank has made, where it has.
  Socket accept() const { return accept_from(listeners_); }
  /// As much as the kernel takes; the number of bytes.
  static std::size_t write(const Socket& socket, std::span<const std::byte> bytes) {
    iovec piece = piece_of(bytes.data(), bytes.size());
    return static_cast<std::size_t>(std::max(socket.send({&piece, 1}), 0L));
  }

 private:
  TcpTransport honest_;
  std::uint64_t token_ = 0;
  Endpoint remote_, local_;
  Socket listeners_;
};

}  // namespace ddl::test
