#include "core/bootstrap/common_rails.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace ddl {
namespace {

constexpr std::size_t kMostRails = 32;

std::size_t rail_in(const EndpointInfo& endpoint, const std::string& subnet) {
  auto at = std::find_if(endpoint.rails.begin(), endpoint.rails.end(),
                         [&](const RailInfo& rail) { return rail.subnet == subnet; });
  return static_cast<std::size_t>(at - endpoint.rails.begin());
}

std::string reasons_of(const EndpointInfo& endpoint) {
  std::string text;
  for (const IdleRail& rail : endpoint.idle_rails)
    text += fmt::format("{}{}: {}", text.empty() ? " (" : ", ", rail.interface, rail.reason);
  return text.empty() ? text : text + ")";
}

std::string trouble_with_rails(const std::vector<EndpointInfo>& endpoints) {
  for (std::size_t r = 0; r < endpoints.size(); ++r)
    if (endpoints[r].rails.empty())
      return fmt::format("rank {} on {} has no usable network interface between hosts{}", r,
                         endpoints[r].host, reasons_of(endpoints[r]));
  for (std::size_t r = 0; r < endpoints.size(); ++r)
    if (endpoints[r].wire != endpoints[0].wire)
      return fmt::format("rank {} on {} speaks {} between hosts and rank 0 {}; set DDL_WIRE alike everywhere",
                         r, endpoints[r].host, endpoints[r].wire, endpoints[0].wire);
  return {};
}

double slowest_in(const std::vector<EndpointInfo>& endpoints, const JobMap& job_map, std::size_t rail) {
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < endpoints.size(); ++r)
    slowest = std::min(slowest, endpoints[r].rails[job_map.interface_of_rail[r][rail]].gbit);
  return slowest;
}

// Two hosts with one address, as private networks of virtual machines have: "" when there are none.
std::string same_address(const std::vector<EndpointInfo>& endpoints, const std::vector<Rank>& leaders,
                         const std::string& subnet) {
  std::map<std::string, std::string> host_at;
  for (Rank leader : leaders) {
    const EndpointInfo& endpoint = endpoints[static_cast<std::size_t>(leader)];
    const std::string& ip = endpoint.rails[rail_in(endpoint, subnet)].ip;
    if (ip.empty()) continue;
    auto [known, is_new] = host_at.try_emplace(ip, endpoint.host);
    if (!is_new)
      return fmt::format("network {} is not used ({} and {} both are {} in it)", subnet, known->second,
                         endpoint.host, known->first);
  }
  return {};
}

// What the hosts have as rails: all interfaces, all networks.
struct RailsInUse {
  std::set<std::string> interfaces, subnets;

  RailsInUse(const std::vector<EndpointInfo>& endpoints, const std::vector<Rank>& leaders) {
    for (Rank leader : leaders)
      for (const RailInfo& rail : endpoints[static_cast<std::size_t>(leader)].rails) {
        interfaces.insert(rail.interface);
        subnets.insert(rail.subnet);
      }
  }
};

// Somebody else has this rail, or the user asked for it: that it is idle here costs speed.
bool is_missed(const IdleRail& idle, const RailsInUse& in_use) {
  return idle.asked || in_use.interfaces.count(idle.interface) > 0 ||
         (!idle.subnet.empty() && in_use.subnets.count(idle.subnet) > 0);
}

// "h1, h3, h4 and 7 more"
std::string list_of(const std::vector<std::string>& hosts) {
  std::string text = hosts[0];
  for (std::size_t h = 1; h < hosts.size() && h < 3; ++h) text += ", " + hosts[h];
  return hosts.size() > 3 ? text + fmt::format(" and {} more", hosts.size() - 3) : text;
}

// "rail r1 of h1, h3 and 7 more is not used (down)": one line per interface and reason.
std::vector<std::string> notes_on_missed(const std::vector<EndpointInfo>& endpoints,
                                         const std::vector<Rank>& leaders) {
  const RailsInUse in_use(endpoints, leaders);
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> hosts_with;
  for (Rank leader : leaders)
    for (const IdleRail& idle : endpoints[static_cast<std::size_t>(leader)].idle_rails)
      if (is_missed(idle, in_use))
        hosts_with[{idle.interface, idle.reason}].push_back(endpoints[static_cast<std::size_t>(leader)].host);
  std::vector<std::string> notes;
  for (const auto& [rail, hosts] : hosts_with)
    notes.push_back(fmt::format("rail {} of {} is not used ({})", rail.first, list_of(hosts), rail.second));
  return notes;
}

// Why a host lacks it has been said.
bool is_idle_in(const EndpointInfo& endpoint, const RailInfo& rail) {
  return std::any_of(endpoint.idle_rails.begin(), endpoint.idle_rails.end(), [&](const IdleRail& idle) {
    return idle.subnet == rail.subnet || idle.interface == rail.interface;
  });
}

bool has_interface(const EndpointInfo& endpoint, const std::string& name) {
  return std::any_of(endpoint.rails.begin(), endpoint.rails.end(),
                     [&](const RailInfo& rail) { return rail.interface == name; });
}

// Networks of two hosts and more that others are not in; and of rank 0's own where others have such an
// interface. A network of one host alone is usually meant to be that.
std::vector<std::string> notes_on_missing(const std::vector<EndpointInfo>& endpoints,
                                          const std::vector<Rank>& leaders) {
  std::map<std::string, const RailInfo*> rails;  // by subnet, the first host's
  std::map<std::string, std::set<Rank>> hosts_in;
  for (Rank leader : leaders)
    for (const RailInfo& rail : endpoints[static_cast<std::size_t>(leader)].rails) {
      rails.try_emplace(rail.subnet, &rail);
      hosts_in[rail.subnet].insert(leader);
    }
  std::vector<std::string> notes;
  for (const auto& [subnet, rail] : rails) {
    bool is_expected = hosts_in[subnet].size() > 1,
         is_of_rank_0 = rail_in(endpoints[0], subnet) < endpoints[0].rails.size();
    if (!is_expected && !is_of_rank_0) continue;  // private to one host: there may be as many as hosts
    std::vector<std::string> missing;
    for (Rank leader : leaders) {
      const EndpointInfo& endpoint = endpoints[static_cast<std::size_t>(leader)];
      if (rail_in(endpoint, subnet) < endpoint.rails.size() || is_idle_in(endpoint, *rail)) continue;
      is_expected |= is_of_rank_0 && has_interface(endpoint, rail->interface);
      missing.push_back(endpoint.host);
    }
    if (is_expected && !missing.empty())
      notes.push_back(
          fmt::format("network {} is not used ({} has no address in it)", subnet, list_of(missing)));
  }
  return notes;
}

}  // namespace

// One rail per subnet that all ranks are in. Hosts without a common subnet may still reach each other through
// a router: then one over everybody's first interface is tried.
std::string find_rails(const std::vector<EndpointInfo>& endpoints, JobMap& job_map) {
  if (job_map.hosts() == 1) return {};
  if (std::string trouble = trouble_with_rails(endpoints); !trouble.empty()) return trouble;
  std::vector<Rank> leaders = job_map.leaders();
  job_map.notes = notes_on_missed(endpoints, leaders);
  if (endpoints[0].fake_hosts.empty())
    for (std::string& note : notes_on_missing(endpoints, leaders)) job_map.notes.push_back(std::move(note));
  for (const RailInfo& rail : endpoints[0].rails) {
    bool common = std::all_of(endpoints.begin(), endpoints.end(), [&](const EndpointInfo& endpoint) {
      return rail_in(endpoint, rail.subnet) < endpoint.rails.size();
    });
    bool known = std::find(job_map.rails.begin(), job_map.rails.end(), rail.subnet) != job_map.rails.end();
    if (!common || known || job_map.rails.size() == kMostRails) continue;
    std::string twice = endpoints[0].fake_hosts.empty() ? same_address(endpoints, leaders, rail.subnet) : "";
    if (twice.empty())
      job_map.rails.push_back(rail.subnet);
    else
      job_map.notes.push_back(twice);
  }
  bool routed = job_map.rails.empty();
  if (routed) job_map.rails.push_back("routed");
  for (const EndpointInfo& endpoint : endpoints) {
    job_map.interface_of_rail.emplace_back();
    for (const std::string& rail : job_map.rails)
      job_map.interface_of_rail.back().push_back(routed ? 0 : rail_in(endpoint, rail));
  }
  for (std::size_t rail = 0; rail < job_map.rails.size(); ++rail)
    job_map.rail_gbit.push_back(slowest_in(endpoints, job_map, rail));
  return {};
}

}  // namespace ddl
