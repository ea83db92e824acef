#include "job.hpp"

#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace bench {
namespace {

// "Open MPI v4.1.4, package: ..." -> "Open MPI v4.1.4"; "MPICH Version:\t4.0.2\n..." -> "MPICH
// Version: 4.0.2"
std::string library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string line(text, static_cast<std::size_t>(length));
  line = line.substr(0, line.find_first_of(",\n"));
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

// Looked for from outside: an MPI program knows nothing of it.
bool engine_is_loaded() {
  const char* enable = std::getenv("DDL_ENABLE");
  if (enable && std::string(enable) == "0") return false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/libddl.so") != std::string::npos) return true;
  return false;
}

}  // namespace

std::string hosts_text(const std::string* names, int ranks) {
  std::vector<std::pair<std::string, int>> hosts;
  for (int rank = 0; rank < ranks; ++rank) {
    auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](auto& host) { return host.first == names[rank]; });
    if (known == hosts.end())
      hosts.emplace_back(names[rank], 1);
    else
      ++known->second;
  }
  std::string text = fmt::format("{} host{}: ", hosts.size(), hosts.size() == 1 ? "" : "s");
  for (std::size_t h = 0; h < std::min<std::size_t>(hosts.size(), 8); ++h) {
    text += (h ? ", " : "") + hosts[h].first;
    if (hosts[h].second > 1) text += fmt::format(" x{}", hosts[h].second);
  }
  return hosts.size() > 8 ? text + ", ..." : text;
}

Job describe_job() {
  Job job;
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  MPI_Get_processor_name(name, &length);
  std::vector<char> all(static_cast<std::size_t>(job.ranks) * sizeof name);
  MPI_Gather(name, sizeof name, MPI_CHAR, all.data(), sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  std::vector<std::string> names;
  for (int rank = 0; rank < job.ranks; ++rank)
    names.emplace_back(all.data() + static_cast<std::size_t>(rank) * sizeof name);
  job.hosts = hosts_text(names.data(), job.ranks);
  job.library = library();
  job.engine = engine_is_loaded();
  return job;
}

}  // namespace bench
