// A cluster as a SimGrid platform: every link of every host, one direction each. SimGrid has one engine per
// process, so a process can hold one Platform in its life: see isolated.hpp.
#pragma once

#include <map>
#include <memory>
#include <simgrid/s4u.hpp>
#include <unordered_map>
#include <vector>

#include "cluster.hpp"
#include "core/plan/plan.hpp"

namespace ddl::simulation {

/// SimGrid with a fluid max-min network in which rates and latencies are exactly those of the platform.
std::unique_ptr<simgrid::s4u::Engine> make_engine();

/// Where a message starts and ends. A GPU has one SimGrid host per way out of it, because SimGrid knows one
/// route between two hosts.
struct Way {
  simgrid::s4u::Host *from, *to;
};

class Platform {
 public:
  explicit Platform(const Cluster& cluster);

  const Cluster& cluster() const { return cluster_; }
  Way way(Rank from, Rank to, Fabric fabric, RailId rail) const;
  /// Counts a message on every link of its route, as SimGrid has it.
  void count(const Way& way, double bytes);
  /// Bytes counted on a link; link names: "rail:<host>.<rail>:out" or ":in", "gpu:<rank>:out", ...
  double bytes_on(const std::string& link) const;
  /// Bytes counted on all links between hosts, each message once.
  double wire_bytes() const;
  /// Longest time a link needs for the bytes counted on it.
  double busiest_link_seconds() const;

 private:
  struct Gpu {
    simgrid::s4u::Host *pair, *local;
    std::vector<simgrid::s4u::Host*> rail;
  };
  using Links = std::vector<simgrid::s4u::Link*>;

  simgrid::s4u::Link* link(const std::string& name, double rate, double latency);
  simgrid::s4u::Host* endpoint(const std::string& name, const Links& out, const Links& in);
  void add_host(HostIndex host);
  void add_gpu(HostIndex host, Rank gpu, const Links& bridge, const Links& rail_out, const Links& rail_in);

  Cluster cluster_;
  std::unique_ptr<simgrid::s4u::Engine> engine_;
  simgrid::s4u::NetZone* zone_;
  simgrid::s4u::Link* nothing_;  // for ways that need no link on one side
  std::vector<Gpu> gpus_;
  std::unordered_map<const simgrid::s4u::Link*, double> bytes_;
  std::map<std::pair<simgrid::s4u::Host*, simgrid::s4u::Host*>, Links> routes_;
};

}  // namespace ddl::simulation
