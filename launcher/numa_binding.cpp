#include "launcher/numa_binding.hpp"

#include <sched.h>

#include <filesystem>
#include <fstream>

#include "core/base/env.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

constexpr int kMostCpus = 8192;

// A dynamically sized CPU set: cpu_set_t alone ends at 1024.
class CpuSet {
 public:
  CpuSet() : bits_(CPU_ALLOC(kMostCpus)) { CPU_ZERO_S(size(), bits_); }
  ~CpuSet() { CPU_FREE(bits_); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;
  static std::size_t size() { return CPU_ALLOC_SIZE(kMostCpus); }
  cpu_set_t* bits() { return bits_; }
  bool has(int cpu) const { return CPU_ISSET_S(cpu, size(), bits_); }
  void add(int cpu) { CPU_SET_S(cpu, size(), bits_); }

 private:
  cpu_set_t* bits_;
};

std::vector<int> cpus_of_node(const std::filesystem::path& folder, const CpuSet& allowed) {
  std::ifstream file(folder / "cpulist");
  std::string line;
  std::vector<int> usable;
  if (!std::getline(file, line) || line.empty()) return usable;
  for (int cpu : parse_cpu_list(line))
    if (allowed.has(cpu)) usable.push_back(cpu);
  return usable;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  for (const std::string& range : split(text, ',')) {
    std::size_t dash = range.find('-');
    std::uint64_t first = parse_number(range.substr(0, dash));
    std::uint64_t last = dash == std::string::npos ? first : parse_number(range.substr(dash + 1));
    if (last < first || last >= kMostCpus) throw UsageError("'" + range + "' is no range of CPUs");
    for (std::uint64_t cpu = first; cpu <= last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::vector<int> choose_cpus(const std::vector<std::vector<int>>& numa, const RankFacts& facts) {
  if (numa.size() < 2 || !facts.local_rank || !facts.local_size) return {};
  if (static_cast<std::size_t>(*facts.local_size) < numa.size()) return {};
  return numa[static_cast<std::size_t>(*facts.local_rank) % numa.size()];
}

std::vector<std::vector<int>> usable_numa_nodes() {
  std::vector<std::vector<int>> nodes;
  CpuSet allowed;
  if (sched_getaffinity(0, CpuSet::size(), allowed.bits()) != 0) return nodes;
  const std::filesystem::path root = "/sys/devices/system/node";
  for (int id = 0; id < 1024; ++id) {
    std::filesystem::path folder = root / ("node" + std::to_string(id));
    std::error_code failed;
    if (!std::filesystem::exists(folder, failed)) continue;
    try {
      if (std::vector<int> cpus = cpus_of_node(folder, allowed); !cpus.empty())
        nodes.push_back(std::move(cpus));
    } catch (const UsageError&) {
      return {};  // an unreadable sysfs is no reason to bind wrongly
    }
  }
  return nodes;
}

bool bind_to_cpus(const std::vector<int>& cpus) {
  CpuSet chosen;
  for (int cpu : cpus) chosen.add(cpu);
  return sched_setaffinity(0, CpuSet::size(), chosen.bits()) == 0;
}

}  // namespace ddl
