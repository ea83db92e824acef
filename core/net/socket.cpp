#include "core/net/socket.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>  // whose tcp_info has more than that of netinet
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/net/wait.hpp"

namespace ddl {
namespace {

constexpr int kKind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

union SocketAddress {
  sockaddr any;
  sockaddr_in four;
  sockaddr_in6 six;
};

int family_of(const IpAddress& address) { return address.family == 4 ? AF_INET : AF_INET6; }

socklen_t fill(SocketAddress& to, const IpAddress& address, std::uint16_t port) {
  std::memset(&to, 0, sizeof(to));
  to.any.sa_family = static_cast<sa_family_t>(family_of(address));
  if (address.family == 4) {
    to.four.sin_port = htons(port);
    std::memcpy(&to.four.sin_addr, address.bytes.data(), sizeof(to.four.sin_addr));
    return sizeof(to.four);
  }
  to.six.sin6_port = htons(port);
  std::memcpy(&to.six.sin6_addr, address.bytes.data(), sizeof(to.six.sin6_addr));
  return sizeof(to.six);
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof(value));  // all of them improve something; none is needed
}

// A host that lost its power says nothing: after five seconds of silence the connection counts as broken.
// No TCP_USER_TIMEOUT, which also breaks connections to a peer that lives and does not read for a while.
void tune(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

// All zeros where there is no connection.
tcp_info info_of(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes);
  return info;
}

Endpoint other_end_of(int fd) {
  SocketAddress address;
  socklen_t bytes = sizeof(address);
  Endpoint end;
  if (::getpeername(fd, &address.any, &bytes) != 0) return end;
  if (address.any.sa_family == AF_INET) {
    end.address.family = 4;
    end.port = ntohs(address.four.sin_port);
    std::memcpy(end.address.bytes.data(), &address.four.sin_addr, sizeof(address.four.sin_addr));
  } else if (address.any.sa_family == AF_INET6) {
    end.address.family = 6;
    end.port = ntohs(address.six.sin6_port);
    std::memcpy(end.address.bytes.data(), &address.six.sin6_addr, sizeof(address.six.sin6_addr));
  }
  return end;
}

template <class Call>
long once(std::span<iovec> pieces, Call call) {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  for (;;) {
    long bytes = call(&message);
    if (bytes >= 0) return bytes;
    if (errno != EINTR) return -errno;
  }
}

}  // namespace

void FileDescriptor::close() {
  if (fd_ < 0) return;
  int why = errno;
  ::close(std::exchange(fd_, -1));
  errno = why;
}

long Socket::send(std::span<iovec> pieces) const {
  return once(pieces, [&](msghdr* message) { return ::sendmsg(fd(), message, MSG_NOSIGNAL | MSG_DONTWAIT); });
}

long Socket::receive(std::span<iovec> pieces) const {
  return once(pieces, [&](msghdr* message) { return ::recvmsg(fd(), message, MSG_DONTWAIT); });
}

void Socket::delay_acknowledgements() const { set(fd(), IPPROTO_TCP, TCP_QUICKACK, 0); }

void Socket::acknowledge() const { set(fd(), IPPROTO_TCP, TCP_QUICKACK, 1); }

Socket Socket::duplicate() const { return Socket(::fcntl(fd(), F_DUPFD_CLOEXEC, 0)); }

int Socket::error() const {
  int error = 0;
  socklen_t bytes = sizeof(error);
  return ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

int Socket::unanswered_tries() const {
  const tcp_info info = info_of(fd());
  return info.tcpi_retransmits + info.tcpi_probes;
}

Nanoseconds Socket::waited_for_reader() const {
  return static_cast<Nanoseconds>(info_of(fd()).tcpi_rwnd_limited) * 1000;
}

std::size_t Socket::unacknowledged() const {
  int bytes = 0;
  return ::ioctl(fd(), SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

void Socket::reset() {
  const linger at_once{1, 0};
  if (is_open()) ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close();
}

IpAddress Socket::remote() const { return other_end_of(fd()).address; }

void Socket::shut_down() const { ::shutdown(fd(), SHUT_RDWR); }

void Socket::hang_up() {
  if (is_open()) shut_down();
  close();
}

bool is_running(const std::string& interface) {
  ifreq asked{};
  if (interface.size() >= sizeof(asked.ifr_name)) return true;
  interface.copy(asked.ifr_name, interface.size());
  FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::ioctl(any.fd(), SIOCGIFFLAGS, &asked) != 0) return true;
  constexpr int kCarries = IFF_UP | IFF_RUNNING;
  return (asked.ifr_flags & kCarries) == kCarries;
}

Socket listen_on(Endpoint& local) {
  if (local.address.family == 0) {  // of IPv6, which takes IPv4 too, unless the host has none
    for (std::uint8_t family : {6, 4}) {
      Endpoint all{{family, {}}, local.port};
      if (Socket socket = listen_on(all); socket.is_open()) return local.port = all.port, std::move(socket);
      if (errno == EADDRINUSE) break;
    }
    return {};
  }
  Socket socket(::socket(family_of(local.address), kKind, 0));
  if (local.address.family == 6) set(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (local.port != 0) set(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);  // its last owner may have just ended
  SocketAddress address;
  socklen_t bytes = fill(address, local.address, local.port);
  if (!socket.is_open() || ::bind(socket.fd(), &address.any, bytes) != 0 ||
      ::listen(socket.fd(), SOMAXCONN) != 0 || ::getsockname(socket.fd(), &address.any, &bytes) != 0)
    return {};
  local.port = ntohs(local.address.family == 4 ? address.four.sin_port : address.six.sin6_port);
  return socket;
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) tune(socket.fd());
  return socket;
}

Socket start_connecting(const Endpoint& to, const IpAddress& from) {
  errno = EAFNOSUPPORT;
  if (to.address.family == 0 || (from.family != 0 && from.family != to.address.family)) return {};
  Socket socket(::socket(family_of(to.address), kKind, 0));
  if (!socket.is_open()) return {};
  tune(socket.fd());
  set(socket.fd(), IPPROTO_TCP, TCP_SYNCNT, 2);  // gives up after seven seconds
  SocketAddress address;
  if (from.family != 0) {
    // The port is chosen with the destination in view: many connections do not use up the ports.
    set(socket.fd(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    socklen_t bytes = fill(address, from, 0);
    if (::bind(socket.fd(), &address.any, bytes) != 0) return {};
  }
  socklen_t bytes = fill(address, to.address, to.port);
  if (::connect(socket.fd(), &address.any, bytes) != 0 && errno != EINPROGRESS) return {};
  return socket;
}

Socket connect_to(const Endpoint& to, Timeout timeout) {
  Socket socket = start_connecting(to);
  if (!socket.is_open()) return {};
  int error = wait_until(socket, Ready::write, timeout) ? socket.error() : ETIMEDOUT;
  if (error == 0) return socket;
  errno = error;
  return {};
}

void send_at_once_to(const Endpoint& other_end) {
  std::error_code failed;  // without /proc all stays as it is
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc/self/fd", failed); !failed && at != end;
       at.increment(failed)) {
    const int fd = std::atoi(at->path().filename().c_str());
    if (other_end_of(fd) == other_end) set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  }
}

}  // namespace ddl
