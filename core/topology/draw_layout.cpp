#include "core/topology/draw_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ddl {
namespace {

bool contains_all(const std::vector<int>& set, const std::vector<int>& wanted) {
  return !wanted.empty() && std::all_of(wanted.begin(), wanted.end(), [&](int number) {
    return std::find(set.begin(), set.end(), number) != set.end();
  });
}

bool overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int number) { return std::find(b.begin(), b.end(), number) != b.end(); });
}

std::string package_model(const NodeTopology& node, const std::vector<int>& packages) {
  for (const Package& package : node.packages)
    if (!packages.empty() && package.index == packages.front()) return package.model;
  return {};
}

PlaceView place_of_numa(const NodeTopology& node, const NumaNode& numa) {
  PlaceView place;
  place.memory = numa.memory;
  place.pus = numa.pus;
  for (const Package& package : node.packages)
    if (package.index == numa.package || (numa.package < 0 && overlap(package.pus, numa.pus)))
      place.packages.push_back(package.index);
  place.model = package_model(node, place.packages);
  for (const Core& core : node.cores)
    if (core.numa == numa.index) place.cores.push_back(core);
  std::string numa_title = fmt::format("NUMA {}", numa.index);
  place.title = place.packages.empty()
                    ? numa_title
                    : fmt::format("package{} {} · {}", place.packages.size() > 1 ? "s" : "",
                                  range_words(place.packages), numa_title);
  return place;
}

// With those cores that are in no NUMA node: there is none, or a cgroup does not show theirs.
PlaceView place_of_package(const NodeTopology& node, const Package& package) {
  PlaceView place{
      fmt::format("package {}", package.index), package.model, 0, {}, {}, {}, {}, {package.index}};
  const auto is_known = [&](int numa) {
    return std::any_of(node.numa.begin(), node.numa.end(),
                       [numa](const NumaNode& one) { return one.index == numa; });
  };
  for (const Core& core : node.cores)
    if (core.package == package.index && !is_known(core.numa)) {
      place.cores.push_back(core);
      place.pus.insert(place.pus.end(), core.pus.begin(), core.pus.end());
    }
  if (node.numa.empty()) place.pus = package.pus;
  return place;
}

std::vector<PlaceView> places_of(const NodeTopology& node) {
  std::vector<PlaceView> places;
  for (const NumaNode& numa : node.numa) places.push_back(place_of_numa(node, numa));
  for (const Package& package : node.packages)
    if (PlaceView place = place_of_package(node, package); node.numa.empty() || !place.cores.empty())
      places.push_back(std::move(place));
  return places;
}

void put_gpus(HostView& view) {
  for (const Gpu& gpu : view.node->gpus) {
    PlaceView* home = nullptr;
    if (gpu.numa >= 0 && gpu.numa < static_cast<int>(view.node->numa.size()))
      home = &view.places[static_cast<std::size_t>(gpu.numa)];
    for (PlaceView& place : view.places)
      if (!home && gpu.package >= 0 && contains_all(place.packages, {gpu.package})) home = &place;
    (home ? home->gpus : view.gpus_elsewhere).push_back(gpu);
  }
}

void put_ranks(const Topology& topology, HostIndex host, HostView& view) {
  for (const RankPlace& rank : topology.ranks) {
    if (rank.host != host) continue;
    if (rank.gpu >= 0) view.ranks_of_gpu[rank.gpu].push_back(rank.rank);
    PlaceView* home = nullptr;
    for (PlaceView& place : view.places)
      if (!home && contains_all(place.pus, rank.pus)) home = &place;
    (home ? home->ranks : view.unbound_ranks).push_back(rank.rank);
  }
}

// A described NIC has no state: whether it is up was never read.
bool has_state(const Nic& nic) { return nic.sources.count("up") || nic.up || !nic.address.empty(); }

void put_nics(HostView& view) {
  std::vector<Nic> known;
  for (const NodeNic& nic : view.node->nics)
    if (has_state(nic.nic)) known.push_back(nic.nic);
  RailChoice choice = choose_rails(known, {});
  view.skipped_nics = choice.skipped;
  for (const NodeNic& nic : view.node->nics) {
    bool skipped = std::any_of(choice.skipped.begin(), choice.skipped.end(),
                               [&](const SkippedNic& other) { return other.name == nic.nic.name; });
    if (!skipped) view.nics.push_back(nic);
  }
}

bool is_gpu(const std::string& end) { return end.rfind("gpu", 0) == 0; }

NodeTopology without_identity(NodeTopology node) {
  node.host.clear();
  node.notes.clear();
  node.memory = 0;  // differs a little even between equal machines
  for (NumaNode& numa : node.numa) numa.memory = 0;
  for (NodeNic& nic : node.nics) {
    nic.nic.address.clear();
    nic.nic.notes.clear();
    nic.nic.prefix = 0;
  }
  return node;
}

}  // namespace

HostView view_host(const Topology& topology, HostIndex host) {
  HostView view;
  view.node = &topology.hosts.at(static_cast<std::size_t>(host));
  view.places = places_of(*view.node);
  put_gpus(view);
  put_ranks(topology, host, view);
  put_nics(view);
  return view;
}

std::vector<LinkGroup> group_links(const NodeTopology& node) {
  std::vector<LinkGroup> groups;
  for (const DeviceLink& link : node.links) {
    if (link.kind == "PCIe") continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const LinkGroup& other) {
      return other.kind == link.kind && other.gbytes == link.gbytes;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {link.kind, link.gbytes, {}, false});
    group->pairs.emplace_back(link.a, link.b);
  }
  std::size_t all_pairs = node.gpus.size() * (node.gpus.size() - (node.gpus.empty() ? 0 : 1)) / 2;
  for (LinkGroup& group : groups)
    group.all_gpu_pairs = node.gpus.size() > 2 && group.pairs.size() == all_pairs &&
                          std::all_of(group.pairs.begin(), group.pairs.end(), [](const auto& pair) {
                            return is_gpu(pair.first) && is_gpu(pair.second);
                          });
  return groups;
}

double pcie_of(const NodeTopology& node, const std::string& device) {
  for (const DeviceLink& link : node.links)
    if (link.kind == "PCIe" && (link.a == device || link.b == device)) return link.gbytes;
  return 0;
}

bool are_alike(const NodeTopology& a, const NodeTopology& b) {
  return without_identity(a) == without_identity(b);
}

std::vector<RingDrawing> possible_rings(const Topology& topology,
                                        const std::vector<std::string>& wanted_rails) {
  struct Rail {
    std::set<std::string> names;
    std::set<std::size_t> hosts;
  };
  std::map<std::string, Rail> rails;  // by network
  RingDrawing ring;
  for (std::size_t host = 0; host < topology.hosts.size(); ++host) {
    ring.hosts.push_back(topology.hosts[host].host);
    std::vector<Nic> nics;
    for (const NodeNic& nic : topology.hosts[host].nics) nics.push_back(nic.nic);
    for (const Nic& nic : rail_candidates(nics, wanted_rails)) {
      rails[subnet_of(nic)].names.insert(nic.name);
      rails[subnet_of(nic)].hosts.insert(host);
    }
  }
  std::vector<RingDrawing> rings;
  for (const auto& [network, rail] : rails) {
    if (topology.hosts.size() < 2 || rail.hosts.size() < topology.hosts.size()) continue;
    ring.rail = fmt::format("{} {}", fmt::join(rail.names, "/"), network);
    rings.push_back(ring);
  }
  return rings;
}

std::string size_words(Bytes bytes) {
  double gib = static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
  return gib >= 100 ? fmt::format("{:.0f} GiB", gib) : fmt::format("{:.1f} GiB", gib);
}

std::string speed_words(const Nic& nic) {
  return nic.gbit > 0 ? fmt::format("{:.4g} Gbit/s", nic.gbit) : std::string("speed unknown");
}

std::string rate_words(double gbytes) { return fmt::format("{:.3g} GB/s", gbytes); }

std::string count_words(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string range_words(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string words;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] <= numbers[last] + 1) ++last;
    if (!words.empty()) words += ',';
    words += numbers[last] == numbers[i] ? fmt::format("{}", numbers[i])
                                         : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return words;
}

std::string address_words(const Nic& nic) {
  return nic.address.empty() ? std::string("no address") : fmt::format("{}/{}", nic.address, nic.prefix);
}

// "2 NUMA nodes", "4 NUMA nodes (2 of memory alone)".
std::string numa_words(const NodeTopology& node) {
  const auto bare = std::count_if(node.numa.begin(), node.numa.end(),
                                  [](const NumaNode& numa) { return numa.pus.empty(); });
  std::string words = count_words(node.numa.size(), "NUMA node");
  return bare ? words + fmt::format(" ({} of memory alone)", bare) : words;
}

std::string summary_words(const NodeTopology& node) {
  std::vector<std::string> words = {count_words(node.packages.size(), "package"), numa_words(node),
                                    count_words(node.cores.size(), "core"),
                                    count_words(all_pus(node).size(), "PU")};
  if (node.memory) words.push_back(size_words(node.memory));
  if (!node.gpus.empty()) words.push_back(count_words(node.gpus.size(), "GPU"));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string place_words(const NodeNic& nic) {
  std::string words;
  if (nic.nic.numa >= 0)
    words = fmt::format("NUMA {}", nic.nic.numa);
  else if (nic.package >= 0)
    words = fmt::format("package {}", nic.package);
  // The words of Distance, nearest first; "system" is no nearness.
  for (const char* distance : {"switch", "bridge", "numa", "package"}) {
    std::vector<std::string> nearest;
    for (const DistanceTo& way : nic.distances)
      if (way.distance == distance && is_gpu(way.to)) nearest.push_back(way.to);
    if (!nearest.empty()) return fmt::format("{}, nearest {}", words, fmt::join(nearest, " "));
  }
  return words;
}

}  // namespace ddl
