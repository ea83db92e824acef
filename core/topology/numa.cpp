#include "core/topology/numa.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ddl {
namespace {

namespace fs = std::filesystem;

// "node3" -> 3; -1 for anything else.
int number_of(const std::string& name) {
  constexpr std::string_view kNode = "node";
  int number = -1;
  if (!name.starts_with(kNode)) return -1;
  auto [end, error] = std::from_chars(name.data() + kNode.size(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : -1;
}

}  // namespace

int numa_node_of(std::span<const int> cpus, const fs::path& nodes) {
  std::error_code ignored;
  if (cpus.empty()) return -1;
  for (fs::directory_iterator entry(nodes, ignored), end; entry != end; entry.increment(ignored)) {
    int node = number_of(entry->path().filename().string());
    if (node >= 0 && std::all_of(cpus.begin(), cpus.end(), [&](int cpu) {
          return fs::exists(entry->path() / fmt::format("cpu{}", cpu), ignored);
        }))
      return node;
  }
  return -1;
}

}  // namespace ddl
