// Which mpirun starts the job: found on PATH, known by what its --version says. Open MPI 4 and 5 are served;
// where PATH's mpirun is another MPI's but mpirun.openmpi exists (Debian), that one is taken.
#pragma once

#include <string>

#include "launcher/system.hpp"

namespace ddl {

struct MpirunInfo {
  std::string command = "mpirun";  // a bare name: an absolute path would make mpirun imply --prefix
  bool open_mpi = false;
  int major = 0;
  std::string version;     // "4.1.4"
  std::string first_line;  // what it said, for messages
};

/// What the text of `mpirun --version` tells. Pure.
MpirunInfo parse_mpirun_version(const std::string& command, const std::string& text);

/// Asks the mpirun on PATH. Throws LaunchError when there is none, or none of Open MPI.
MpirunInfo find_mpirun();

/// "dir/name" of the first executable called `name` in the colon-separated `path`, else "".
std::string find_on_path(const std::string& name, const std::string& path, const std::string& directory);

}  // namespace ddl
