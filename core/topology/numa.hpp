// Which NUMA node a set of CPUs belongs to, from the running kernel.
#pragma once

#include <filesystem>
#include <span>

namespace ddl {

/// The node that all these CPUs belong to; -1 where they are of several, or none is known.
int numa_node_of(std::span<const int> cpus, const std::filesystem::path& nodes = "/sys/devices/system/node");

}  // namespace ddl
