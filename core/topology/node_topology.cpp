#include "core/topology/node_topology.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/env.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

template <class Part>
std::vector<int> pus_of(const std::vector<Part>& parts, int index, const char* what,
                        const std::string& host) {
  for (const Part& part : parts)
    if (part.index == index) return part.pus;
  throw Error(fmt::format("{} has no {} {}", host, what, index), fmt::format("it has {}", parts.size()),
              "count from 0");
}

}  // namespace

std::string name_of(Distance distance) {
  switch (distance) {
    case Distance::switch_:
      return "switch";
    case Distance::bridge:
      return "bridge";
    case Distance::numa:
      return "numa";
    case Distance::package:
      return "package";
    case Distance::system:
      return "system";
  }
  return "system";
}

std::vector<int> pus_of_package(const NodeTopology& node, int index) {
  return pus_of(node.packages, index, "package", node.host);
}

std::vector<int> pus_of_numa(const NodeTopology& node, int index) {
  return pus_of(node.numa, index, "NUMA node", node.host);
}

std::vector<int> parse_pu_ranges(const std::string& text) {
  constexpr std::uint64_t kMaxPu = 1'000'000;
  std::vector<int> pus;
  try {
    for (const std::string& range : split(text, ',')) {
      std::vector<std::string> ends = split(range, '-');
      std::uint64_t first = parse_number(ends.front()), last = parse_number(ends.back());
      if (ends.size() > 2 || last > kMaxPu) return {};
      for (std::uint64_t pu = first; pu <= last; ++pu) pus.push_back(static_cast<int>(pu));
    }
  } catch (const UsageError&) {
    return {};
  }
  return pus;
}

std::vector<int> all_pus(const NodeTopology& node) {
  std::vector<int> pus;
  for (const Core& core : node.cores) pus.insert(pus.end(), core.pus.begin(), core.pus.end());
  std::sort(pus.begin(), pus.end());
  return pus;
}

}  // namespace ddl
