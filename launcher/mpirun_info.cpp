#include "launcher/mpirun_info.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/env.hpp"
#include "launcher/messages.hpp"
#include "launcher/run_command.hpp"

namespace ddl {
namespace {

constexpr const char* kInstall = "install Open MPI (Debian: openmpi-bin) or put its bin folder on PATH";

MpirunInfo ask(const std::string& command) {
  CommandResult result = run_command({command, "--version"}, std::chrono::seconds(20));
  return parse_mpirun_version(command, result.output + result.errors);
}

bool is_on_path(const std::string& name) { return !find_on_path(name, foreign_env("PATH"), ".").empty(); }

}  // namespace

MpirunInfo parse_mpirun_version(const std::string& command, const std::string& text) {
  MpirunInfo info;
  info.command = command;
  info.first_line = text.substr(0, text.find('\n'));
  for (const char* name : {"(Open MPI) ", "(OpenRTE) "}) {
    std::size_t at = text.find(name);
    if (at == std::string::npos) continue;
    std::string rest = text.substr(at + std::string(name).size());
    info.version = rest.substr(0, rest.find_first_of(" \n\t"));
    info.major = std::atoi(info.version.c_str());
    info.open_mpi = info.major >= 4;
  }
  return info;
}

std::string find_on_path(const std::string& name, const std::string& path, const std::string& directory) {
  for (const std::string& folder : split(path, ':')) {
    std::string file = absolute_path((folder.empty() ? "." : folder) + "/" + name, directory);
    struct stat facts {};
    if (stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && access(file.c_str(), X_OK) == 0)
      return file;
  }
  return {};
}

MpirunInfo find_mpirun() {
  bool there = is_on_path("mpirun");
  MpirunInfo info;
  if (there) info = ask("mpirun");
  if (info.open_mpi) return info;
  if (is_on_path("mpirun.openmpi")) {
    MpirunInfo other = ask("mpirun.openmpi");
    if (other.open_mpi) return other;
  }
  if (!there) throw LaunchError("no mpirun is on PATH", "it starts the processes", kInstall);
  throw LaunchError(
      fmt::format("the mpirun on PATH is not Open MPI 4 or 5"),
      info.first_line.empty() ? "it says nothing about its version" : "it says: " + info.first_line,
      kInstall);
}

}  // namespace ddl
