#include "cluster.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace ddl::simulation {
namespace {

constexpr double kGiga = 1e9, kMicro = 1e-6;

Cluster s822lc(std::string name, Rank hosts) {
  return {.name = std::move(name),
          .hosts = hosts,
          .gpus = 4,
          .interior = Interior::paired,
          .gpu_rate = 40 * kGiga,
          .bridge_rate = 38.4 * kGiga,
          .rails = 2,
          .rail_rate = 12.5 * kGiga,
          .local_latency = 2 * kMicro,
          .wire_latency = 4 * kMicro,
          .message_cost = 0.3 * kMicro};
}

Cluster one_nic_box(std::string name, Rank hosts, Rank gpus) {
  return {.name = std::move(name),
          .hosts = hosts,
          .gpus = gpus,
          .interior = Interior::ports,
          .gpu_rate = 12 * kGiga,
          .bridge_rate = 0,
          .rails = 1,
          .rail_rate = 7 * kGiga,
          .local_latency = 2 * kMicro,
          .wire_latency = 4 * kMicro,
          .message_cost = 0.3 * kMicro};
}

}  // namespace

const std::vector<Cluster>& known_clusters() {
  static const std::vector<Cluster> clusters{s822lc("64x4", 64), s822lc("48x4", 48),
                                             one_nic_box("64x8", 64, 8), one_nic_box("8x8", 8, 8)};
  return clusters;
}

const Cluster& find_cluster(const std::string& name) {
  std::string names;
  for (const Cluster& cluster : known_clusters()) {
    if (cluster.name == name) return cluster;
    names += (names.empty() ? "" : ", ") + cluster.name;
  }
  throw UsageError("there is no cluster '" + name + "'", "a model is needed to simulate it",
                   "take one of " + names);
}

Cluster with_hosts(Cluster cluster, Rank hosts) {
  cluster.name = std::to_string(hosts) + "x" + std::to_string(cluster.gpus);
  cluster.hosts = hosts;
  return cluster;
}

Cluster with_gpus(Cluster cluster, Rank gpus) {
  cluster.name = std::to_string(cluster.hosts) + "x" + std::to_string(gpus);
  cluster.gpus = gpus;
  return cluster;
}

double bandwidth_limit(const Cluster& cluster, Bytes bytes, Kind kind) {
  auto share = [&](Rank parts) {
    const double each = static_cast<double>(cluster.ranks()) / parts;  // ranks of such a part
    double of_all = parts > 1 ? 1 : 0;
    if (kind == Kind::all_reduce) of_all = 2.0 * (parts - 1) / parts;
    if (kind == Kind::gather || kind == Kind::scatter || kind == Kind::all_gather)
      of_all = each * (parts - 1);
    if (kind == Kind::all_to_all) of_all = each * each * (parts - 1);
    return of_all * static_cast<double>(bytes);
  };
  // A GPU of a paired host sends over its pair link and over the one to the bridge, rails included.
  double out_of_gpu = cluster.gpu_rate * (cluster.interior == Interior::paired ? 2 : 1);
  return std::max(share(cluster.hosts) / (cluster.rails * cluster.rail_rate),
                  share(cluster.ranks()) / out_of_gpu);
}

}  // namespace ddl::simulation
