// What the launcher may know about the world: variables, files, this host. A value, so that everything that
// decides (allocation, job spec, what ddl-exec sets) is a pure function tested with a made-up one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/strings.hpp"

namespace ddl {

struct System {
  std::function<std::string(const std::string&)> variable;             // "" when unset
  std::function<std::optional<std::string>(const std::string&)> file;  // its text, if readable
  std::string host;                                                    // this machine's name
  std::string directory;                                               // the working directory
  std::optional<std::string> visible_gpus;  // CUDA_VISIBLE_DEVICES: an empty list hides all, unset none
  Strings entries;                          // the DDL_* entries, NAME=VALUE
  Strings mca_entries;                      // the OMPI_MCA_* and PRTE_MCA_* entries
  Strings mpirun_folders;                   // where mpirun's installation keeps its files of settings
  std::function<bool(const std::string&)> is_here;  // does this name of a host mean this machine?
  bool root = false;
};

System this_system();

/// By the name alone: as this machine calls itself, or localhost.
bool is_own_name(const std::string& host, const std::string& this_host);

/// Where the programs and libraries of this installation are: bin/ and lib/ below one prefix.
struct Installation {
  std::string bin, lib;
  std::string ddl_exec() const { return bin + "/ddl-exec"; }
  std::string ddl_probe() const { return bin + "/ddl-probe"; }
  std::string shim() const { return lib + "/libddl_shim.so"; }
};

/// The installation of a program file, usually of /proc/self/exe.
Installation installation_of(const std::string& program_file);
Installation this_installation();

/// No more than joined: behind a symbolic link `..` is not what the text says.
std::string absolute_path(const std::string& path, const std::string& directory);

}  // namespace ddl
