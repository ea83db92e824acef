// More ranks than GPUs on a host: allowed, and said in one line. Pure.
#pragma once

#include <optional>
#include <string>

#include "core/topology/node_topology.hpp"
#include "launcher/system.hpp"

namespace ddl {

/// The GPUs of a host that CUDA would show to a program; `visible`: CUDA_VISIBLE_DEVICES, absent when unset.
std::size_t cuda_gpus(const NodeTopology& node, const std::optional<std::string>& visible);

/// The line about so many ranks on this host, which looks like `node`; "" when each can have a GPU of its
/// own or there is none at all.
std::string sharing_line(std::size_t ranks, const NodeTopology& node, const System& world);

}  // namespace ddl
