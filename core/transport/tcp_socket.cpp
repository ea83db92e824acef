#include "core/transport/tcp_socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.hpp"

namespace ddl {
namespace {

const sockaddr_in& v4(const Endpoint& endpoint) {
  return reinterpret_cast<const sockaddr_in&>(endpoint.address);
}
const sockaddr_in6& v6(const Endpoint& endpoint) {
  return reinterpret_cast<const sockaddr_in6&>(endpoint.address);
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof(value));  // all of them improve something; none is needed
}

// A host that lost its power says nothing: after half a minute of silence the connection counts as broken.
// No TCP_USER_TIMEOUT, which also breaks connections to a peer that lives and does not read for a while.
void tune(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

constexpr int kKind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<Endpoint> Endpoint::parse(const std::string& text) {
  Endpoint endpoint;
  auto& four = reinterpret_cast<sockaddr_in&>(endpoint.address);
  auto& six = reinterpret_cast<sockaddr_in6&>(endpoint.address);
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    endpoint.bytes = sizeof(four);
    return endpoint;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    endpoint.bytes = sizeof(six);
    return endpoint;
  }
  return std::nullopt;
}

std::uint16_t Endpoint::port() const {
  return ntohs(address.ss_family == AF_INET ? v4(*this).sin_port : v6(*this).sin6_port);
}

void Endpoint::set_port(std::uint16_t port) {
  if (address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  }
}

std::string Endpoint::text() const {
  char host[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &v4(*this).sin_addr, host, sizeof(host));
    return fmt::format("{}:{}", host, port());
  }
  ::inet_ntop(AF_INET6, &v6(*this).sin6_addr, host, sizeof(host));
  return fmt::format("[{}]:{}", host, port());
}

Socket listen_on(Endpoint& local, const std::string& interface) {
  Socket socket(::socket(local.address.ss_family, kKind, 0));
  local.bytes = local.address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (!socket.is_open() || ::bind(socket.fd(), local.get(), local.bytes) != 0 ||
      ::listen(socket.fd(), SOMAXCONN) != 0 || ::getsockname(socket.fd(), local.get(), &local.bytes) != 0)
    throw Error(
        fmt::format("cannot listen on {} of interface {}: {}", local.text(), interface, std::strerror(errno)),
        "ranks of different hosts exchange data through it", "name another one with DDL_RAILS");
  return socket;
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) tune(socket.fd());
  return socket;
}

Socket connect_from(const Endpoint& local, const Endpoint& remote) {
  Socket socket(::socket(local.address.ss_family, kKind, 0));
  if (!socket.is_open()) return {};
  tune(socket.fd());
  Endpoint from = local;
  from.set_port(0);
  set(socket.fd(), IPPROTO_TCP, TCP_SYNCNT, 4);  // gives up after half a minute at the most
  // The port is chosen with the destination in view: many connections do not use up the ports.
  set(socket.fd(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  bool begun = ::bind(socket.fd(), from.get(), from.bytes) == 0 &&
               (::connect(socket.fd(), remote.get(), remote.bytes) == 0 || errno == EINPROGRESS);
  if (begun) return socket;
  int why = errno;
  socket.close();
  errno = why;
  return {};
}

int unanswered_tries(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return 0;
  return info.tcpi_retransmits + info.tcpi_probes;
}

}  // namespace ddl
