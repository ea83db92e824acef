#include "interpose/gloo/missing_shim.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "core/base/process.hpp"

namespace ddl::gloo {
namespace {

bool is_same(const std::string& one, const std::string& other, const char* name) {
  const std::string value = value_in(one, name);
  return !value.empty() && value == value_in(other, name);
}

void look_at_libraries(const std::filesystem::path& folder, JobProcess& process) {
  std::ifstream file(folder / "maps");
  auto names = [](const std::string& line, const char* library) {
    return line.find(library) != std::string::npos;
  };
  for (std::string line; std::getline(file, line);) {
    process.has_shim |= names(line, "/libddl_shim.so");
    process.has_gloo |= names(line, "/libtorch_cpu.so") || names(line, "/libgloo.so");
  }
}

}  // namespace

std::vector<JobProcess> processes_of_this_job() {
  const std::string mine = environment_of(getpid());
  std::vector<JobProcess> found;
  std::error_code gone;  // processes come and go
  for (std::filesystem::directory_iterator at("/proc", gone), end; !gone && at != end; at.increment(gone)) {
    const std::string name = at->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto process = static_cast<pid_t>(std::stol(name));
    const std::string its = environment_of(process);
    const Rank rank = rank_of(value_in(its, "RANK"));
    if (rank < 0 || !is_same(mine, its, "MASTER_ADDR") || !is_same(mine, its, "MASTER_PORT")) continue;
    found.push_back({process, rank});
    look_at_libraries(at->path(), found.back());
  }
  return found;
}

std::vector<JobProcess> without_shim(const std::vector<JobProcess>& processes) {
  std::map<Rank, JobProcess> without;
  for (const JobProcess& one : processes)
    if (one.has_gloo && !one.has_shim) without.emplace(one.rank, one);
  for (const JobProcess& one : processes)
    if (one.has_shim) without.erase(one.rank);
  std::vector<JobProcess> found;
  for (const auto& [rank, one] : without) found.push_back(one);
  return found;
}

std::string text_of_those_without_shim(const std::vector<JobProcess>& processes, pid_t me) {
  const std::vector<JobProcess> without = without_shim(processes);
  const JobProcess* lowest = nullptr;
  for (const JobProcess& one : processes)
    if (one.has_gloo && one.has_shim && (!lowest || one.rank < lowest->rank)) lowest = &one;
  const auto self =
      std::find_if(processes.begin(), processes.end(), [&](const auto& one) { return one.id == me; });
  if (!lowest || self == processes.end() || self->rank != lowest->rank) return {};
  std::string who;
  for (const JobProcess& one : without)
    who += fmt::format("{}rank {} (process {})", who.empty() ? "" : ", ", one.rank, one.id);
  return fmt::format("{} without libddl_shim.so; preload it on all ranks or on none",
                     who.empty()           ? "ranks on other hosts seem to run"
                     : without.size() == 1 ? who + " runs"
                                           : who + " run");
}

}  // namespace ddl::gloo
