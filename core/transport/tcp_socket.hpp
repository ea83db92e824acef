// Sockets as TcpTransport needs them: never blocking, closed on exec, bound to one rail.
//
// Ownership: a Socket owns its descriptor. Thread safety: none needed, values.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close() { Socket().swap(*this); }
  void swap(Socket& other) { std::swap(fd_, other.fd_); }

 private:
  int fd_ = -1;
};

/// An address of the socket layer, IPv4 or IPv6.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t bytes = 0;

  /// From text such as "10.0.0.1" or "fd00::1"; nothing where it is neither.
  static std::optional<Endpoint> parse(const std::string& text);
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  std::string text() const;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// Listens on any free port of `local` and writes the port there. Throws Error naming `interface`.
Socket listen_on(Endpoint& local, const std::string& interface);
/// Takes a connection that waits; a closed socket and errno where there is none.
Socket accept_from(const Socket& listener);
/// Begins a connection that leaves from `local`, so that its bytes go over that rail. A closed socket and
/// errno where that is impossible.
Socket connect_from(const Endpoint& local, const Endpoint& remote);
/// How often in a row the kernel has sent the same bytes, or asked for room, without an answer.
int unanswered_tries(int fd);

}  // namespace ddl
