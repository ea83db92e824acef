// The part of SessionEndpoint about the wire: which interfaces it offers as rails, which of them reach the
// other hosts.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/session/session_endpoint.hpp"
#include "core/topology/nics.hpp"
#include "core/transport/tcp.hpp"
#include "core/transport/ucx.hpp"

namespace ddl {
namespace {

// A lost first packet is sent again after 1, 3 and 7 seconds.
constexpr double kRailTimeout_s = 8;

// Decided from variables that the launcher gives to all ranks alike, never from what one host has: the job
// map refuses a job whose ranks differ. UCX earns its place where it may use more than sockets. Over sockets,
// on a shared machine of two cores with 4 hosts x 2 ranks and unshaped links, all ranks together take 145 ms
// of processor time for 16 MiB with UCX and 119 ms with TCP. Wall time from 256 KiB on is 1.0 to 1.9 times
// better in four runs, 0.7 to 1.5 times in two under foreign load. At 1 Gbit/s, and below 4 KiB, the noise is
// larger than the difference.
Wire choose_wire(const Env& env) {
  if (env.wire != Wire::automatic) return env.wire;
  return env.ucx_tls == "tcp" ? Wire::tcp : Wire::ucx;
}

std::unique_ptr<WireTransport> open_wire(Wire wire, const std::vector<TcpRail>& rails, const Env& env,
                                         Rank me) {
  if (wire == Wire::tcp) return std::make_unique<TcpTransport>(rails, me);
  std::vector<std::string> names;
  for (const TcpRail& rail : rails) names.push_back(rail.interface);
  return make_ucx_transport(names, env.ucx_tls);
}

// Interfaces that somebody may miss among the rails, and why they are none.
std::vector<IdleRail> idle_rails(const std::vector<Nic>& nics, const RailChoice& choice,
                                 const std::vector<std::string>& wanted) {
  std::vector<IdleRail> idle;
  for (const SkippedNic& skipped : choice.skipped) {
    auto nic =
        std::find_if(nics.begin(), nics.end(), [&](const Nic& one) { return one.name == skipped.name; });
    bool asked = std::find(wanted.begin(), wanted.end(), skipped.name) != wanted.end();
    bool is_private = nic->loopback || nic->kind == "docker" || nic->kind == "bridge";
    if (asked || (wanted.empty() && !is_private))
      idle.push_back({skipped.name, subnet_of(*nic), skipped.reason, asked});
  }
  for (const std::string& name : choice.missing)
    idle.push_back({name, "", "there is no such interface", true});
  return idle;
}

}  // namespace

void SessionEndpoint::open_rails(EndpointInfo& endpoint) {
  std::vector<std::string> wanted = wanted_rails(env_);
  if (wanted.empty() && !env_.fake_hosts.empty()) wanted = {"lo"};
  std::vector<Nic> nics = list_nics();
  RailChoice choice = choose_rails(nics, wanted);
  endpoint.idle_rails = idle_rails(nics, choice, wanted);
  if (choice.rails.empty()) return;
  std::vector<TcpRail> rails;
  for (const Nic& nic : choice.rails) rails.push_back({nic.name, nic.address});
  Wire wire = choose_wire(env_);
  endpoint.wire = wire == Wire::tcp ? "tcp" : "ucx";
  wire_ = open_wire(wire, rails, env_, me_);
  if (wire_->wake_fd() >= 0) {
    region_->open_bell();
    endpoint.bell = region_->bell();
  }
  listeners_ = std::make_unique<RailListeners>(rails);
  for (std::size_t i = 0; i < rails.size(); ++i)
    endpoint.rails.push_back({rails[i].interface, subnet_of(choice.rails[i]), wire_->address(i),
                              rails[i].address, listeners_->port(i), rated_gbit(choice.rails[i])});
}

// One rank of each host tries; the others believe it.
Reach SessionEndpoint::try_rails(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) {
  Reach reach{std::vector<std::string>(job_map.rails.size())};
  std::vector<Rank> leaders = job_map.leaders();
  HostIndex here = job_map.host_of_rank[static_cast<std::size_t>(me_)];
  if (job_map.hosts() == 1 || leaders[static_cast<std::size_t>(here)] != me_) return reach;
  auto rail_of = [&](Rank rank, std::size_t rail) -> const RailInfo& {
    const auto r = static_cast<std::size_t>(rank);
    return endpoints[r].rails[job_map.interface_of_rail[r][rail]];
  };
  std::vector<HostIndex> others = hosts_to_try(here, job_map.hosts());
  std::vector<RailProbe> probes;
  for (std::size_t rail = 0; rail < job_map.rails.size(); ++rail)
    for (HostIndex other : others) {
      const RailInfo& probe_port = rail_of(leaders[static_cast<std::size_t>(other)], rail);
      probes.push_back({rail_of(me_, rail).ip, probe_port.ip, probe_port.probe_port});
    }
  std::vector<std::string> reasons = probe_rails(probes, std::min(env_.timeout_s, kRailTimeout_s));
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    std::size_t rail = i / others.size();
    if (reasons[i].empty() || !reach.rail_trouble[rail].empty()) continue;
    reach.rail_trouble[rail] =
        fmt::format("rail {} ({}) does not reach {} ({})", rail_of(me_, rail).interface, job_map.rails[rail],
                    job_map.host_names[static_cast<std::size_t>(others[i % others.size()])], reasons[i]);
  }
  return reach;
}

}  // namespace ddl
