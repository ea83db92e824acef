#include "platform.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddl::simulation {

namespace s4u = simgrid::s4u;

std::unique_ptr<s4u::Engine> make_engine() {
  // SimGrid's defaults correct rates and latencies for TCP over Ethernet; here a link is what it says.
  // Ends of messages within 0.2 us of each other are one event: five times faster, but a time moves by up to
  // 7 %.
  static std::vector<std::string> words{"simulate",
                                        "--cfg=network/model:CM02",
                                        "--cfg=network/crosstraffic:0",
                                        "--cfg=network/TCP-gamma:0",
                                        "--cfg=network/weight-S:0",
                                        "--cfg=surf/precision:2e-7",
                                        "--cfg=network/latency-factor:1",
                                        "--cfg=network/bandwidth-factor:1",
                                        "--log=root.thresh:warning",
                                        "--log=no_loc"};
  static std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  return std::make_unique<s4u::Engine>(&argc, argv.data());
}

Platform::Platform(const Cluster& cluster)
    : cluster_(cluster), engine_(make_engine()), zone_(s4u::create_star_zone("cluster")) {
  nothing_ = zone_->create_link("nothing", 1e18)->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE);
  nothing_->seal();
  for (HostIndex host = 0; host < cluster.hosts; ++host) add_host(host);
  zone_->seal();
}

s4u::Link* Platform::link(const std::string& name, double rate, double latency) {
  return zone_->create_link(name, rate)->set_latency(latency)->seal();
}

s4u::Host* Platform::endpoint(const std::string& name, const Links& out, const Links& in) {
  s4u::Host* host = zone_->create_host(name, 1e9);
  auto route = [&](const Links& links) {
    std::vector<s4u::LinkInRoute> way;
    for (s4u::Link* link : links) way.emplace_back(link);
    if (way.empty()) way.emplace_back(nothing_);
    return way;
  };
  zone_->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, route(out), false);
  zone_->add_route(nullptr, host->get_netpoint(), nullptr, nullptr, route(in), false);
  return host;
}

void Platform::add_host(HostIndex host) {
  Links bridge, rail_out, rail_in;
  if (cluster_.interior == Interior::paired)
    for (int from : {0, 1})
      bridge.push_back(link(fmt::format("bridge:{}.{}", host, from), cluster_.bridge_rate, 0));
  for (int rail = 0; rail < cluster_.rails; ++rail) {
    // A GPU's own link, which a message to another host passes first, already has the local latency.
    double latency = cluster_.wire_latency - cluster_.local_latency;
    rail_out.push_back(link(fmt::format("rail:{}.{}:out", host, rail), cluster_.rail_rate, latency));
    rail_in.push_back(link(fmt::format("rail:{}.{}:in", host, rail), cluster_.rail_rate, 0));
  }
  for (Rank gpu = 0; gpu < cluster_.gpus; ++gpu) add_gpu(host, gpu, bridge, rail_out, rail_in);
}

void Platform::add_gpu(HostIndex host, Rank gpu, const Links& bridge, const Links& rail_out,
                       const Links& rail_in) {
  std::string name = std::to_string(gpus_.size());
  s4u::Link* out = link("gpu:" + name + ":out", cluster_.gpu_rate, cluster_.local_latency);
  s4u::Link* in = link("gpu:" + name + ":in", cluster_.gpu_rate, 0);
  bool paired = cluster_.interior == Interior::paired;
  int half = 2 * gpu >= cluster_.gpus;
  Gpu ways{};
  if (paired) {
    s4u::Link* pair = link("pair:" + name, cluster_.gpu_rate, cluster_.local_latency);
    ways.pair = endpoint("pair-" + name, {pair}, {});
    ways.local = endpoint("local-" + name, {out, bridge[static_cast<std::size_t>(half)]}, {in});
  } else {
    ways.local = endpoint("local-" + name, {out}, {in});
  }
  for (int rail = 0; rail < cluster_.rails; ++rail) {
    auto r = static_cast<std::size_t>(rail);
    Links leaving{out}, arriving{rail_in[r]};
    if (paired && rail % 2 != half) {  // the NIC hangs on the other half of the host
      leaving.push_back(bridge[static_cast<std::size_t>(half)]);
      arriving.push_back(bridge[static_cast<std::size_t>(1 - half)]);
    }
    leaving.push_back(rail_out[r]);
    arriving.push_back(in);
    ways.rail.push_back(endpoint(fmt::format("rail{}-{}-{}", rail, host, gpu), leaving, arriving));
  }
  gpus_.push_back(std::move(ways));
}

Way Platform::way(Rank from, Rank to, Fabric fabric, RailId rail) const {
  const Gpu &a = gpus_[static_cast<std::size_t>(from)], &b = gpus_[static_cast<std::size_t>(to)];
  if (fabric == Fabric::wire) return {a.rail[rail % a.rail.size()], b.rail[rail % b.rail.size()]};
  bool neighbours = a.pair && cluster_.gpu_of(from) / 2 == cluster_.gpu_of(to) / 2;
  return neighbours ? Way{a.pair, b.pair} : Way{a.local, b.local};
}

void Platform::count(const Way& way, double bytes) {
  auto [at, fresh] = routes_.try_emplace({way.from, way.to});
  if (fresh) way.from->route_to(way.to, at->second, nullptr);
  for (const s4u::Link* link : at->second) bytes_[link] += bytes;
}

double Platform::bytes_on(const std::string& name) const {
  auto at = bytes_.find(s4u::Link::by_name(name));
  return at == bytes_.end() ? 0 : at->second;
}

double Platform::wire_bytes() const {
  double bytes = 0;
  for (const auto& [link, counted] : bytes_)
    if (link->get_name().starts_with("rail:") && link->get_name().ends_with(":out")) bytes += counted;
  return bytes;
}

double Platform::busiest_link_seconds() const {
  double seconds = 0;
  for (const auto& [link, counted] : bytes_) seconds = std::max(seconds, counted / link->get_bandwidth());
  return seconds;
}

}  // namespace ddl::simulation
