// The clusters that are simulated: hosts with GPUs, the links inside, rails to a switch that never blocks.
// One rank per GPU, ranks of a host side by side. Values only; platform.hpp builds them in SimGrid.
#pragma once

#include <string>
#include <vector>

#include "core/base/types.hpp"
#include "core/plan/kind.hpp"

namespace ddl::simulation {

/// How the GPUs of a host reach each other.
enum class Interior : std::uint8_t {
  ports,   // each GPU has one port, in and out, to a switch that never blocks
  paired,  // IBM S822LC: GPUs 2k and 2k + 1 have a link of their own; the halves of the host meet in one
           // bridge
};

struct Cluster {
  std::string name;
  Rank hosts, gpus;  // gpus: per host
  Interior interior;
  double gpu_rate;     // bytes/s of a GPU's link, each direction
  double bridge_rate;  // paired only: bytes/s between the two halves of a host, each direction
  int rails;
  double rail_rate;                    // bytes/s of one NIC, each direction
  double local_latency, wire_latency;  // seconds from one GPU to another, in a host and between hosts
  double message_cost;                 // seconds of its sender's time that a message takes, whatever its size

  bool pair_dimension = false;  // our plans see the pairs of GPUs and not only their host

  // Bytes under way on one connection before the next message waits: hides the latency of the wire at its
  // rate.
  double connection_window = 128 << 10;

  Rank ranks() const { return hosts * gpus; }
  HostIndex host_of(Rank rank) const { return rank / gpus; }
  Rank gpu_of(Rank rank) const { return rank % gpus; }
};

/// The clusters of the papers, by name; the assumptions are in docs/reproduction.md.
const std::vector<Cluster>& known_clusters();
/// UsageError when there is none of that name.
const Cluster& find_cluster(const std::string& name);
/// The same cluster with fewer hosts or another number of them.
Cluster with_hosts(Cluster cluster, Rank hosts);
/// The same with so many GPUs in each.
Cluster with_gpus(Cluster cluster, Rank gpus);

/// Seconds that no all-reduce of that many bytes can beat: the rails of a host must carry 2 (H - 1) / H of it
/// out, a GPU's links 2 (p - 1) / p; latency not counted. A broadcast or a reduce: they carry all of it once.
double bandwidth_limit(const Cluster& cluster, Bytes bytes, Kind kind = Kind::all_reduce);

}  // namespace ddl::simulation
