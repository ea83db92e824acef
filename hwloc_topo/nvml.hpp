// NVLinks and GPU names from NVIDIA's management library, which Debian's hwloc cannot ask. Loaded only where
// NVIDIA GPUs are in sight; its absence is a note.
#pragma once

#include "core/topology/node_topology.hpp"

namespace ddl {

/// Adds names and links to the node's NVIDIA GPUs (matched by PCI bus id).
void ask_nvml(NodeTopology& node);

}  // namespace ddl
