#include "launcher/core_binding.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "core/base/cpu_set.hpp"
#include "core/base/env.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

namespace fs = std::filesystem;

// The list of numbers in a sysfs file; empty when there is no such file.
std::vector<int> list_in(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  if (!std::getline(stream, line) || line.empty()) return {};
  return parse_cpu_list(line);
}

// The CPUs there, only those this process may use.
std::vector<int> cpus_in(const fs::path& file, const CpuSet& allowed) {
  std::vector<int> cpus = list_in(file);
  std::erase_if(cpus, [&](int cpu) { return !allowed.has(cpu); });
  return cpus;
}

std::vector<int> cpus_by_node(const CpuSet& allowed) {
  std::vector<int> cpus;
  for (int node : list_in("/sys/devices/system/node/online"))
    for (int cpu : cpus_in("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist", allowed))
      cpus.push_back(cpu);
  // Of no node: there are none, or theirs is not online.
  for (int cpu : cpus_in("/sys/devices/system/cpu/online", allowed))
    if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  for (const std::string& range : split(text, ',')) {
    std::size_t dash = range.find('-');
    std::uint64_t first = parse_number(range.substr(0, dash));
    std::uint64_t last = dash == std::string::npos ? first : parse_number(range.substr(dash + 1));
    if (last < first || last >= CpuSet::kMost) throw UsageError("'" + range + "' is no range of CPUs");
    for (std::uint64_t cpu = first; cpu <= last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::string cpu_list_text(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  Strings ranges;
  for (std::size_t first = 0, last = 0; first < cpus.size(); first = last = last + 1) {
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    ranges.push_back(std::to_string(cpus[first]));
    if (last > first) ranges.back() += "-" + std::to_string(cpus[last]);
  }
  return join(ranges, ",");
}

std::vector<int> choose_cpus(const std::vector<CoreCpus>& cores, const RankFacts& facts) {
  if (!facts.local_rank || !facts.local_size || *facts.local_size < 1) return {};
  auto rank = static_cast<std::size_t>(*facts.local_rank),
       ranks = static_cast<std::size_t>(*facts.local_size);
  if (ranks > cores.size() || rank >= ranks) return {};
  std::vector<int> cpus;
  for (std::size_t core = rank * cores.size() / ranks; core < (rank + 1) * cores.size() / ranks; ++core)
    cpus.insert(cpus.end(), cores[core].begin(), cores[core].end());
  return cpus;
}

std::vector<CoreCpus> usable_cores() {
  CpuSet allowed;
  if (!allowed.read()) return {};
  std::vector<CoreCpus> cores;
  std::set<int> placed;
  try {
    for (int cpu : cpus_by_node(allowed)) {
      if (placed.count(cpu)) continue;
      std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology";
      CoreCpus core = cpus_in(folder + "/thread_siblings_list", allowed);
      if (core.empty()) core = {cpu};
      placed.insert(core.begin(), core.end());
      cores.push_back(std::move(core));
    }
  } catch (const UsageError&) {
    return {};  // an unreadable sysfs is no reason to bind wrongly
  }
  return cores;
}

std::size_t machine_cores() {
  std::set<std::string> cores;  // by the threads of each
  try {
    for (int cpu : list_in("/sys/devices/system/cpu/online")) {
      std::string threads;
      std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                         "/topology/thread_siblings_list");
      if (!std::getline(file, threads)) return 0;
      cores.insert(threads);
    }
  } catch (const UsageError&) {
    return 0;
  }
  return cores.size();
}

bool bind_to_cpus(const std::vector<int>& cpus) {
  CpuSet chosen;
  for (int cpu : cpus) chosen.add(cpu);
  return chosen.apply();
}

}  // namespace ddl
