#include "core/transport/rail_check.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

constexpr Nanoseconds kLook = 100'000'000;

Socket begin(const Knock& knock) {
  std::optional<Endpoint> from = Endpoint::parse(knock.from), to = Endpoint::parse(knock.to);
  errno = EAFNOSUPPORT;
  if (!from || !to || from->address.ss_family != to->address.ss_family) return {};
  to->set_port(knock.port);
  return connect_from(*from, *to);
}

// How connecting ended; nothing while it goes on.
std::optional<std::string> outcome(const pollfd& polled) {
  if (polled.revents == 0) return std::nullopt;
  int error = 0;
  socklen_t bytes = sizeof(error);
  ::getsockopt(polled.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error ? std::strerror(error) : std::string();
}

}  // namespace

RailDoors::RailDoors(const std::vector<TcpRail>& rails) {
  for (const TcpRail& rail : rails) {
    std::optional<Endpoint> local = Endpoint::parse(rail.address);
    if (!local)
      throw Error(fmt::format("interface {} has no usable address ('{}')", rail.interface, rail.address),
                  "ranks of different hosts exchange data through it", "name another one with DDL_RAILS");
    listeners_.push_back(listen_on(*local, rail.interface));
    ports_.push_back(local->port());
  }
}

std::vector<std::string> knock(const std::vector<Knock>& knocks, Nanoseconds patience) {
  std::vector<std::string> reasons(
      knocks.size(), fmt::format("no answer in {:.3g} s", static_cast<double>(patience) * 1e-9));
  std::vector<Socket> sockets;
  std::vector<pollfd> polled;  // poll passes over those that are closed
  for (std::size_t i = 0; i < knocks.size(); ++i) {
    sockets.push_back(begin(knocks[i]));
    if (!sockets[i].is_open()) reasons[i] = std::strerror(errno);
    polled.push_back({sockets[i].fd(), POLLOUT, 0});
  }
  Nanoseconds until = now() + patience;
  auto is_closed = [](const Socket& socket) { return !socket.is_open(); };
  while (!std::all_of(sockets.begin(), sockets.end(), is_closed)) {
    Nanoseconds left = until - now();  // before the look: who was stopped for long looks once more
    ::poll(polled.data(), polled.size(),
           static_cast<int>(std::clamp<Nanoseconds>(left, 0, kLook) / 1'000'000));
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      std::optional<std::string> ended = sockets[i].is_open() ? outcome(polled[i]) : std::nullopt;
      if (!ended) continue;
      reasons[i] = *ended;
      sockets[i].close();
      polled[i].fd = -1;
    }
    if (left <= 0) break;
  }
  return reasons;
}

std::vector<HostIndex> hosts_to_try(HostIndex from, HostIndex hosts) {
  std::vector<HostIndex> others;
  for (std::int64_t far = 1; far < hosts; far *= 2)
    others.push_back(static_cast<HostIndex>((from + far) % hosts));
  return others;
}

}  // namespace ddl
