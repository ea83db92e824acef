#include "core/bootstrap/job_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>

#include "core/base/packing.hpp"
#include "core/bootstrap/common_rails.hpp"
#include "core/bootstrap/strictest_settings.hpp"

namespace ddl {

template <class Any, class One>
concept IsA = std::is_same_v<std::remove_const_t<Any>, One>;

// What travels of each, in this order; an endpoint info's version must be the first.
void each_field(IsA<RailInfo> auto& rail, auto& visit) {
  visit("interface", rail.interface);
  visit("subnet", rail.subnet);
  visit("address", rail.address);
  visit("ip", rail.ip);
  visit("probe_port", rail.probe_port);
  visit("gbit", rail.gbit);
}

void each_field(IsA<IdleRail> auto& rail, auto& visit) {
  visit("interface", rail.interface);
  visit("subnet", rail.subnet);
  visit("reason", rail.reason);
  visit("asked", rail.asked);
}

void each_field(IsA<BytesByRanks::Exception> auto& exception, auto& visit) {
  visit("ranks", exception.ranks);
  visit("bytes", exception.bytes);
}

void each_field(IsA<GradientSettings> auto& settings, auto& visit) {
  auto wire_type = static_cast<std::uint8_t>(settings.wire_type);
  visit("wire_type", wire_type);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(settings)>>) {
    if (wire_type >= kWireTypes) throw Error("field wire_type holds a number that is none of types");
    settings.wire_type = static_cast<WireType>(wire_type);
  }
  auto wire_where = static_cast<std::uint8_t>(settings.wire_where);
  visit("wire_where", wire_where);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(settings)>>) {
    if (wire_where >= kWireWheres) throw Error("field wire_where holds a number that is no place");
    settings.wire_where = static_cast<WireWhere>(wire_where);
  }
  visit("wire_type_from", settings.wire_type_from.others);
  visit("wire_type_from by ranks", settings.wire_type_from.exceptions);
  visit("lazy", settings.lazy);
  visit("sparse share", settings.sparse.share);
  visit("sparse from", settings.sparse.from);
  visit("sparse warm_up", settings.sparse.warm_up);
  visit("sparse most_kept", settings.sparse.most_kept);
}

void each_field(IsA<EndpointInfo> auto& endpoint, auto& visit) {
  visit("version", endpoint.version);
  visit("trouble", endpoint.trouble);
  visit("host", endpoint.host);
  visit("boot_id", endpoint.boot_id);
  visit("ipc", endpoint.ipc);
  visit("pid", endpoint.pid);
  visit("fd", endpoint.fd);
  visit("bell", endpoint.bell);
  visit("nonce", endpoint.nonce);
  visit("cpus", endpoint.cpus);
  visit("numa_node", endpoint.numa_node);
  visit("wire", endpoint.wire);
  visit("rails", endpoint.rails);
  visit("idle_rails", endpoint.idle_rails);
  visit("fake_hosts", endpoint.fake_hosts);
  visit("progress_hook", endpoint.progress_hook);
  visit("staging", endpoint.staging);
  visit("segment", endpoint.segment);
  visit("report", endpoint.report);
  visit("options", endpoint.options);
  visit("tuning", endpoint.tuning);
  visit("cpu_model", endpoint.cpu_model);
  visit("deterministic", endpoint.deterministic);
  visit("gradients", endpoint.gradients);
}

namespace {

constexpr int kMostRanksOfHost = 1 << 20;
// What DDL_SEGMENT_BYTES may ask for; a message must stay far below 2^32 bytes.
constexpr Bytes kLeastSegment = 64 << 10, kLargestSegment = 64 << 20;

std::string trouble_in(const std::vector<std::optional<EndpointInfo>>& endpoints) {
  std::vector<Rank> absent;
  for (std::size_t r = 0; r < endpoints.size(); ++r)
    if (!endpoints[r]) absent.push_back(static_cast<Rank>(r));
  if (!absent.empty())
    return fmt::format(
        "{} did not load the engine (libddl_shim.so or libddl.so missing there, or another version)",
        ranks_text(absent));
  for (std::size_t r = 0; r < endpoints.size(); ++r)
    if (!endpoints[r]->trouble.empty())
      return fmt::format("rank {} on {}: {}", r, endpoints[r]->host, endpoints[r]->trouble);
  return {};
}

// Who shares a host: as told by DDL_FAKE_HOSTS, else by equal host name, boot id and IPC namespace.
std::string find_hosts(const std::vector<EndpointInfo>& endpoints, JobMap& job_map) {
  const std::vector<int>& fake = endpoints[0].fake_hosts;
  if (!fake.empty()) {
    if (std::accumulate(fake.begin(), fake.end(), std::size_t{0}) != endpoints.size())
      return fmt::format("DDL_FAKE_HOSTS describes {} ranks, the job has {}",
                         std::accumulate(fake.begin(), fake.end(), 0), endpoints.size());
    for (std::size_t h = 0; h < fake.size(); ++h) {
      job_map.host_of_rank.insert(job_map.host_of_rank.end(), static_cast<std::size_t>(fake[h]),
                                  static_cast<HostIndex>(h));
      job_map.host_names.push_back(fmt::format("{}#{}", endpoints[0].host, h));
    }
    return {};
  }
  std::map<std::string, HostIndex> known;
  for (const EndpointInfo& endpoint : endpoints) {
    auto [host, is_new] = known.try_emplace(text_of(endpoint), static_cast<HostIndex>(known.size()));
    if (is_new) job_map.host_names.push_back(endpoint.host);
    job_map.host_of_rank.push_back(host->second);
  }
  return {};
}

// Containers and virtual networks: what sets their hosts apart does not give them processors of their own.
int find_shared_cores(const std::vector<EndpointInfo>& endpoints, const JobMap& job_map) {
  std::map<std::string, std::vector<std::size_t>> ranks_of_kernel;
  for (std::size_t r = 0; r < endpoints.size(); ++r) ranks_of_kernel[endpoints[r].boot_id].push_back(r);
  int least = 0;
  for (const auto& [boot_id, ranks] : ranks_of_kernel) {
    const HostIndex first = job_map.host_of_rank[ranks[0]];
    auto is_there = [&](std::size_t r) { return job_map.host_of_rank[r] == first; };
    // Most kernels have one host: their CPUs need no counting.
    if (boot_id.empty() || std::all_of(ranks.begin(), ranks.end(), is_there)) continue;
    std::set<int> cpus;
    for (std::size_t r : ranks) cpus.insert(endpoints[r].cpus.begin(), endpoints[r].cpus.end());
    const int cores = static_cast<int>(cpus.size());
    if (cores > 0 && ranks.size() > cpus.size()) least = least ? std::min(least, cores) : cores;
  }
  return least;
}

void count_cores(const std::vector<EndpointInfo>& endpoints, JobMap& job_map) {
  std::vector<std::set<int>> cpus(job_map.host_names.size());
  std::vector<std::size_t> ranks(cpus.size());
  for (std::size_t r = 0; r < endpoints.size(); ++r) {
    const auto host = static_cast<std::size_t>(job_map.host_of_rank[r]);
    cpus[host].insert(endpoints[r].cpus.begin(), endpoints[r].cpus.end());
    ++ranks[host];
  }
  for (std::size_t host = 0; host < cpus.size(); ++host) {
    job_map.cores.push_back(static_cast<int>(cpus[host].size()));
    job_map.crowded.push_back(ranks[host] > cpus[host].size());
  }
}

void find_settings(const std::vector<EndpointInfo>& endpoints, JobMap& job_map) {
  std::vector<GradientSettings> given;
  for (const EndpointInfo& endpoint : endpoints) given.push_back(endpoint.gradients);
  AgreedSettings agreed = strictest(given, job_map.deterministic, job_map.hosts());
  job_map.gradients = std::move(agreed.gradients);
  for (std::string& note : agreed.notes) job_map.notes.push_back(std::move(note));
}

}  // namespace

std::vector<std::byte> pack(const EndpointInfo& endpoint) {
  Packer packer;
  each_field(endpoint, packer);
  return packer.take();
}

std::optional<EndpointInfo> unpack(const std::vector<std::byte>& bytes) {
  int version = 0;
  if (bytes.size() >= sizeof(version)) std::memcpy(&version, bytes.data(), sizeof(version));
  if (version != kWireVersion) return std::nullopt;
  EndpointInfo endpoint;
  try {
    Unpacker unpacker(bytes);
    each_field(endpoint, unpacker);
    unpacker.finish();
    for (int ranks : endpoint.fake_hosts)
      if (ranks < 1 || ranks > kMostRanksOfHost)
        throw Error("field fake_hosts holds a number that is none of ranks");
    const double share = endpoint.gradients.sparse.share;
    if (!(share > 0 && share <= 1)) throw Error("field sparse share holds a number that is none");
  } catch (const Error& error) {
    EndpointInfo damaged;
    damaged.host = endpoint.host;
    damaged.trouble = fmt::format("its endpoint info is damaged: {}", error.what());
    return damaged;
  }
  return endpoint;
}

std::vector<Rank> JobMap::ranks_with(Rank rank) const {
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < host_of_rank.size(); ++r)
    if (host_of_rank[r] == host_of_rank[static_cast<std::size_t>(rank)])
      ranks.push_back(static_cast<Rank>(r));
  return ranks;
}

std::vector<Rank> JobMap::leaders() const {
  std::vector<Rank> first(host_names.size(), -1);
  for (std::size_t r = 0; r < host_of_rank.size(); ++r)
    if (Rank& leader = first[static_cast<std::size_t>(host_of_rank[r])]; leader < 0)
      leader = static_cast<Rank>(r);
  return first;
}

void JobMap::keep_rails(const std::vector<bool>& keep) {
  auto sift = [&](auto& values) {
    std::remove_reference_t<decltype(values)> kept;
    for (std::size_t rail = 0; rail < values.size(); ++rail)
      if (keep[rail]) kept.push_back(values[rail]);
    values = std::move(kept);
  };
  sift(rails);
  sift(rail_gbit);
  for (auto& interfaces : interface_of_rail) sift(interfaces);
}

JobMap map_job(const std::vector<std::optional<EndpointInfo>>& maybe) {
  JobMap job_map;
  job_map.trouble = trouble_in(maybe);
  if (!job_map.trouble.empty()) return job_map;
  std::vector<EndpointInfo> endpoints;
  for (const auto& endpoint : maybe) endpoints.push_back(*endpoint);
  job_map.nonblocking = std::all_of(endpoints.begin(), endpoints.end(),
                                    [](const EndpointInfo& endpoint) { return endpoint.progress_hook; });
  job_map.staging = endpoints[0].staging;
  for (const EndpointInfo& endpoint : endpoints) {
    job_map.staging = std::min(job_map.staging, endpoint.staging);
    job_map.numa_of_rank.push_back(endpoint.numa_node);
  }
  job_map.segment =
      endpoints[0].segment ? std::clamp(endpoints[0].segment, kLeastSegment, kLargestSegment) : 0;
  job_map.report = endpoints[0].report;
  job_map.options = endpoints[0].options;
  job_map.tuning = endpoints[0].tuning;
  job_map.deterministic = endpoints[0].deterministic;
  job_map.trouble = find_hosts(endpoints, job_map);
  if (job_map.trouble.empty()) job_map.trouble = find_rails(endpoints, job_map);
  if (job_map.trouble.empty()) job_map.shared_cores = find_shared_cores(endpoints, job_map);
  if (job_map.trouble.empty()) count_cores(endpoints, job_map);
  find_settings(endpoints, job_map);
  return job_map;
}

}  // namespace ddl
