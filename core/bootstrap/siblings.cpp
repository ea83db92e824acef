#include "core/bootstrap/siblings.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

#include "core/base/env.hpp"
#include "core/base/file.hpp"

namespace ddl {
namespace {

constexpr std::size_t kMostBytes = 4 << 20;  // of an environment, and of a list of children

std::string value_in(const std::string& environment, std::string_view name) {
  for (std::size_t at = 0; at < environment.size();) {
    const std::string_view entry(environment.c_str() + at);
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string(entry.substr(name.size() + 1));
    at += entry.size() + 1;
  }
  return {};
}

}  // namespace

Rank rank_in(const std::string& environment, const std::string& job) {
  const std::string rank = value_in(environment, "PMIX_RANK");
  Rank number = -1;
  if (job.empty() || value_in(environment, "PMIX_NAMESPACE") != job) return -1;
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), number);
  return error == std::errc() && end == rank.data() + rank.size() ? number : -1;
}

std::vector<Sibling> siblings() {
  const std::string job = foreign_env("PMIX_NAMESPACE"),
                    parent = "/proc/" + std::to_string(::getppid()) + "/task";
  std::vector<Sibling> found;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(parent, error)) {
    std::istringstream children(read_file(thread.path() / "children", kMostBytes).text);
    for (pid_t pid = 0; children >> pid;) {
      const Rank rank = rank_in(read_file("/proc/" + std::to_string(pid) + "/environ", kMostBytes).text, job);
      if (rank >= 0) found.push_back({rank, state_of_process(pid)});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Sibling& one, const Sibling& other) { return one.rank < other.rank; });
  return found;
}

}  // namespace ddl
