// Pictures of a topology: text for a terminal of 100 columns (UTF-8), and SVG without external resources.
//
// Drawn are hosts, packages and NUMA nodes, cores, GPUs with their links, NICs with speed and address, ranks
// where the topology places them, and the rings between hosts. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "core/topology/node_topology.hpp"

namespace ddl {

/// One ring between hosts: the hosts' names in its order; from the last it goes back to the first.
struct RingDrawing {
  std::string rail;  // "eth1, 10.0.1.0/24"
  std::vector<std::string> hosts;
  friend bool operator==(const RingDrawing&, const RingDrawing&) = default;
};

std::string draw_text(const Topology& topology, const std::vector<RingDrawing>& rings = {});
std::string draw_svg(const Topology& topology, const std::vector<RingDrawing>& rings = {});

/// The rings that the hosts' addresses allow: one per network in which every host has a rail candidate (see
/// choose_rails), over the hosts in the order of the topology. None for a single host.
std::vector<RingDrawing> possible_rings(const Topology& topology,
                                        const std::vector<std::string>& wanted_rails = {});

}  // namespace ddl
