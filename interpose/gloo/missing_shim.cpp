#include "interpose/gloo/missing_shim.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <system_error>

#include "core/base/log.hpp"
#include "core/base/signals.hpp"

namespace ddl::gloo {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);

// What a process was started with.
using Variables = std::map<std::string, std::string>;

Variables variables_of(const std::filesystem::path& process) {
  std::ifstream file(process / "environ", std::ios::binary);
  Variables found;
  for (std::string line; std::getline(file, line, '\0');)
    if (const auto at = line.find('='); at != std::string::npos)
      found[line.substr(0, at)] = line.substr(at + 1);
  return found;
}

bool is_same(const Variables& one, const Variables& other, const char* name) {
  const auto here = one.find(name), there = other.find(name);
  return here != one.end() && there != other.end() && here->second == there->second;
}

std::optional<Rank> rank_in(const Variables& variables) {
  const auto found = variables.find("RANK");
  if (found == variables.end() || found->second.empty() || found->second.size() > 7 ||
      found->second.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return static_cast<Rank>(std::stoi(found->second));
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
  const Variables mine = variables_of("/proc/self");
  std::vector<JobProcess> found;
  std::error_code gone;  // processes come and go
  for (std::filesystem::directory_iterator at("/proc", gone), end; !gone && at != end; at.increment(gone)) {
    const std::string name = at->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const Variables its = variables_of(at->path());
    const std::optional<Rank> rank = rank_in(its);
    if (!rank || !is_same(mine, its, "MASTER_ADDR") || !is_same(mine, its, "MASTER_PORT")) continue;
    found.push_back({static_cast<pid_t>(std::stol(name)), *rank});
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
  if (without.empty() || !lowest || self == processes.end() || self->rank != lowest->rank) return {};
  std::string who;
  for (const JobProcess& one : without)
    who += fmt::format("{}rank {} (process {})", who.empty() ? "" : ", ", one.rank, one.id);
  return fmt::format(
      "{} without libddl_shim.so, and others with it: they wait for each other in their first call until "
      "gloo's "
      "timeout; preload it on all ranks or on none",
      who + (without.size() == 1 ? " runs" : " run"));
}

MissingShimWatch::MissingShimWatch() {
  SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {  // then nobody says it
  }
}

MissingShimWatch::~MissingShimWatch() {
  {
    std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MissingShimWatch::watch() {
  std::unique_lock lock(mutex_);
  if (ends_.wait_for(lock, kPatience, [this] { return has_ended_; })) return;
  lock.unlock();
  try {
    const std::string text = text_of_those_without_shim(processes_of_this_job(), getpid());
    if (!text.empty()) log_warning(text);
  } catch (const std::exception&) {  // it was only to help
  }
}

}  // namespace ddl::gloo
