// Where ddl-exec binds a rank when the user chose no binding: to one NUMA node, and only where that helps.
//
// Binding a rank to a single core would squeeze the program's own threads and the engine's helper onto it;
// leaving it on a machine of one NUMA node costs nothing. So: with several NUMA nodes and at least as many
// ranks here, rank i of this host gets node i mod nodes; otherwise nothing is bound.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/exec_env.hpp"

namespace ddl {

/// "0-3,8" -> 0 1 2 3 8; throws UsageError.
std::vector<int> parse_cpu_list(std::string_view text);

/// The CPUs to bind to, or none. `numa` has the usable CPUs of each NUMA node, nodes without any left out.
std::vector<int> choose_cpus(const std::vector<std::vector<int>>& numa, const RankFacts& facts);

/// The CPUs of each NUMA node that this process may use, from sysfs.
std::vector<std::vector<int>> usable_numa_nodes();
/// False when the kernel refuses; the rank then simply stays unbound.
bool bind_to_cpus(const std::vector<int>& cpus);

}  // namespace ddl
