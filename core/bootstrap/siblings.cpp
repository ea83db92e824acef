#include "core/bootstrap/siblings.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "core/base/env.hpp"
#include "core/base/file.hpp"

namespace ddl {
namespace {

constexpr std::size_t kMostBytes = 4 << 20;  // of a list of children

std::string thread_names_of(pid_t pid) {
  std::string names;
  std::error_code error;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error))
    names += read_file(thread.path() / "comm", 64).text;
  return names;
}

}  // namespace

Rank rank_in(const std::string& environment, const std::string& job) {
  if (job.empty() || value_in(environment, "PMIX_NAMESPACE") != job) return -1;
  return rank_of(value_in(environment, "PMIX_RANK"));
}

Rank own_rank() { return rank_of(foreign_env("PMIX_RANK")); }

Joining joining_of(const std::string& threads, const std::string& environment) {
  std::istringstream names(threads);
  for (std::string name; std::getline(names, name);) {
    if (name == kJoiningThread) return Joining::under_way;
    if (name == kJoinedThread) return Joining::over;
  }
  const bool has_shim = value_in(environment, "LD_PRELOAD").find("libddl_shim.so") != std::string::npos;
  return has_shim ? Joining::not_yet : Joining::unknown;
}

std::vector<Sibling> siblings() {
  const std::string job = foreign_env("PMIX_NAMESPACE"),
                    parent = "/proc/" + std::to_string(::getppid()) + "/task";
  std::vector<Sibling> found;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(parent, error)) {
    std::istringstream children(read_file(thread.path() / "children", kMostBytes).text);
    for (pid_t pid = 0; children >> pid;) {
      const std::string environment = environment_of(pid);
      const Rank rank = rank_in(environment, job);
      if (rank >= 0)
        found.push_back({rank, state_of_process(pid), joining_of(thread_names_of(pid), environment)});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Sibling& one, const Sibling& other) { return one.rank < other.rank; });
  return found;
}

}  // namespace ddl
