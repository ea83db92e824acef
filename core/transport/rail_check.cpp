#include "core/transport/rail_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/net/wait.hpp"

namespace ddl {
RailListeners::RailListeners(const std::vector<TcpRail>& rails) {
  for (const TcpRail& rail : rails) {
    Endpoint local;
    listeners_.push_back(listen_on(rail, local));
    ports_.push_back(local.port);
  }
}

std::vector<std::string> probe_rails(const std::vector<RailProbe>& probes, double timeout_s) {
  std::vector<std::string> reasons(probes.size(), fmt::format("no answer in {:.3g} s", timeout_s));
  std::vector<Socket> sockets;
  for (const RailProbe& one : probes) {
    sockets.push_back(start_connecting({parse_address(one.to), one.port}, parse_address(one.from)));
    if (!sockets.back().is_open()) reasons[sockets.size() - 1] = std::strerror(errno);
  }
  Timeout timeout(timeout_s);
  auto is_open = [](const Socket& socket) { return socket.is_open(); };
  for (bool is_over = false; !is_over && std::any_of(sockets.begin(), sockets.end(), is_open);) {
    is_over = timeout.is_over();  // before the look, so that there is one at the end
    PollSet set;
    for (const Socket& socket : sockets) set.add(socket, Ready::write);
    set.wait(is_over ? 0 : timeout.nap());
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      if (!set.is_ready(i)) continue;
      int error = sockets[i].error();
      reasons[i] = error ? std::strerror(error) : "";
      sockets[i].close();
    }
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
