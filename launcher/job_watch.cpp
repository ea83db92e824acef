#include "launcher/job_watch.hpp"

#include <algorithm>
#include <sstream>

#include "core/base/file.hpp"
#include "core/base/process.hpp"

namespace ddl {
namespace {

constexpr std::size_t kMostMaps = 4 << 20, kMostChildren = 1 << 20;

std::string folder_of(pid_t process) { return "/proc/" + std::to_string(process); }

}  // namespace

MappedLibraries libraries_in(std::string_view maps) {
  auto has = [&](std::string_view name) { return maps.find(name) != std::string_view::npos; };
  MappedLibraries found;
  found.shim = has("/libddl_shim.so");
  const bool mpi_front = has("/libddl_mpi.so");
  found.other_front = has("/libddl_nccl.so") || has("/libddl_gloo.so") || (has("/libddl.so") && !mpi_front);
  found.front = mpi_front || found.other_front;
  found.open_mpi = has("/libmpi.so.40") || has("/libopen-pal.so");
  found.mpich = has("/libmpich.so") || has("/libmpi.so.12") || has("/libmpich.so.12");
  return found;
}

JobSeen seen_of(const std::map<pid_t, std::pair<std::string, MappedLibraries>>& programs) {
  JobSeen seen;
  for (const auto& [process, program] : programs) {
    const auto& [name, libraries] = program;
    seen.front |= libraries.front;
    seen.other_front |= libraries.other_front;
    if (libraries.open_mpi) seen.with_mpi = name;
    if (libraries.open_mpi && !libraries.shim) seen.without_shim = name;
    if (libraries.mpich) seen.mpich = name;
  }
  return seen;
}

// Often at first, since a program may be short; ever more rarely, since a look at a large program is work.
std::chrono::milliseconds JobWatch::look(pid_t root) {
  constexpr int kOften = 30;
  constexpr std::chrono::milliseconds kLongest{2000};
  look_below(root);
  if (seen().front) return {};
  if (++looks_ > kOften) pause_ = std::min(pause_ * 5 / 4, kLongest);
  return pause_;
}

void JobWatch::look_below(pid_t process) {
  const std::string folder = folder_of(process);
  std::istringstream children(
      read_file(folder + "/task/" + std::to_string(process) + "/children", kMostChildren).text);
  for (pid_t child = 0; children >> child;) {
    std::string name = executable_of(child);
    if (!name.empty() && !is_starter(name))
      programs_[child] = {name, libraries_in(read_file(folder_of(child) + "/maps", kMostMaps).text)};
    look_below(child);
  }
}

}  // namespace ddl
