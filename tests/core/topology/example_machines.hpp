// Machines made by hand for the tests of the pictures.
#pragma once

#include "core/topology/node_topology.hpp"

namespace ddl::example {

/// Two packages of two cores, two GPUs each, NVLink 40 GB/s inside a package; rails eth0 and eth1.
inline NodeTopology two_packages(const std::string& host, int number) {
  NodeTopology node;
  node.host = host;
  node.memory = 1ull << 34;
  for (int p = 0; p < 2; ++p) {
    std::vector<int> pus = {4 * p, 4 * p + 1, 4 * p + 2, 4 * p + 3};
    node.packages.push_back({p, p, "Example CPU", pus, {}});
    node.numa.push_back({p, p, p, 1ull << 33, pus, {}});
    for (int c = 0; c < 2; ++c) node.cores.push_back({2 * p + c, p, p, {4 * p + 2 * c, 4 * p + 2 * c + 1}});
    for (int g = 0; g < 2; ++g)
      node.gpus.push_back(
          {2 * p + g, "Example GPU", "NVIDIA", "000" + std::to_string(2 * p + g) + ":01:00.0", p, p, {}});
    node.links.push_back(
        {"gpu" + std::to_string(2 * p), "gpu" + std::to_string(2 * p + 1), 40, "NVLink", "hwloc"});
  }
  for (int rail = 0; rail < 2; ++rail) {
    NodeNic nic;
    nic.nic.name = "eth" + std::to_string(rail);
    nic.nic.address = "10.0." + std::to_string(rail + 1) + "." + std::to_string(number);
    nic.nic.prefix = 24;
    nic.nic.up = nic.nic.running = true;
    nic.nic.gbit = 25;
    nic.nic.kind = "ethernet";
    nic.nic.numa = rail;
    node.nics.push_back(nic);
  }
  return node;
}

}  // namespace ddl::example
