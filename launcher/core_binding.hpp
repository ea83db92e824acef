// Where ddl-exec binds a rank when the user chose no binding: to its share of the cores of its host.
//
// n ranks on a host with C cores: rank i gets the cores i·C/n to (i+1)·C/n, in the order of their NUMA nodes,
// with all hardware threads of a core. A share is as large as it can be, so the program's own threads and the
// engine's helper have room, and two ranks never end up on one core while another is idle (the kernel does
// that to processes which wake each other). Where ranks outnumber cores nothing is bound.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/exec_env.hpp"

namespace ddl {

using CoreCpus = std::vector<int>;  // its CPUs (hardware threads)

/// "0-3,8" -> 0 1 2 3 8; throws UsageError.
std::vector<int> parse_cpu_list(std::string_view text);

/// 8 0 1 2 3 -> "0-3,8".
std::string cpu_list_text(std::vector<int> cpus);

/// The CPUs to bind to, or none.
std::vector<int> choose_cpus(const std::vector<CoreCpus>& cores, const RankFacts& facts);

/// The cores this process may use, node by node, from sysfs; empty when sysfs does not tell.
std::vector<CoreCpus> usable_cores();
/// Cores of this machine, whoever may use them; 0 when sysfs does not tell.
std::size_t machine_cores();
/// False when the kernel refuses; the rank then simply stays unbound.
bool bind_to_cpus(const std::vector<int>& cpus);

}  // namespace ddl
