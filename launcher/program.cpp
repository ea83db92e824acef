#include "launcher/program.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "launcher/elf_file.hpp"
#include "launcher/mpirun_info.hpp"
#include "launcher/system.hpp"

namespace ddl {
namespace {

bool is_executable(const std::string& file) {
  struct stat facts {};
  return stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && access(file.c_str(), X_OK) == 0;
}

// cudaMalloc, ncclSend, ...; of the driver's functions, whose names begin with a mere "cu", the one that
// every user of the driver calls first.
bool is_gpu_function(std::string_view name) {
  if (name == "cuInit") return true;
  for (std::string_view start : {"cuda", "nccl"})
    if (name.substr(0, start.size()) == start && name.size() > start.size())
      return name[start.size()] >= 'A' && name[start.size()] <= 'Z';
  return false;
}

}  // namespace

std::string find_program(const std::string& name, const ProgramSearch& search) {
  if (name.find('/') != std::string::npos) {
    std::string file = absolute_path(name, search.directory);
    return is_executable(file) ? file : std::string();
  }
  for (const std::string& path : {search.extra_path, search.path, search.directory}) {
    if (path.empty()) continue;
    if (std::string file = find_on_path(name, path, search.directory); !file.empty()) return file;
  }
  return {};
}

std::string hint_for_script(const std::string& name, const std::string& directory) {
  const std::string file = absolute_path(name, directory);
  struct stat facts {};
  if (!name.ends_with(".py") || stat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  char start[2] = {};
  std::ifstream(file).read(start, sizeof start);
  if (is_executable(file) && start[0] == '#' && start[1] == '!') return {};
  return "python3 " + name;
}

std::optional<ProgramTrouble> trouble_with_program(const std::string& name, const ProgramSearch& search) {
  if (std::string hint = hint_for_script(name, search.directory); !hint.empty())
    return ProgramTrouble{"cannot be executed",
                          "it is no executable file that names its interpreter in a first line #!",
                          "write " + hint + "?", true};
  if (!find_program(name, search).empty()) return std::nullopt;
  const std::string file = absolute_path(name, search.directory);
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0)
    return ProgramTrouble{"is not found",
                          name.find('/') == std::string::npos ? "searched PATH and " + search.directory
                                                              : "there is no file " + file,
                          "check its name and path"};
  if (S_ISDIR(facts.st_mode))
    return ProgramTrouble{"cannot be executed", file + " is a folder", "name the program in it", true};
  return ProgramTrouble{"cannot be executed", file + " has no permission for that", "chmod +x it", true};
}

Preloadable judge_program(const std::string& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) return Preloadable::yes;
  bool other_user = (facts.st_mode & S_ISUID) && facts.st_uid != getuid();
  bool other_group = (facts.st_mode & S_ISGID) && facts.st_gid != getgid();
  if (other_user || other_group) return Preloadable::privileged;
  return has_interpreter(file) ? Preloadable::yes : Preloadable::statically;
}

GpuUse gpu_use(const std::string& file) {
  GpuUse use;
  visit_elf_symbols(file, [&](const ElfSymbol& symbol) {
    use.cuda |= is_gpu_function(symbol.name);
    use.nccl_inside |= symbol.function && symbol.defined && symbol.name == "ncclAllReduce";
  });
  return use;
}

bool contains_mpi(const std::string& file) {
  bool own = false, from_library = false;
  visit_elf_symbols(file, [&](const ElfSymbol& symbol) {
    own |= symbol.function && symbol.defined && symbol.name == "MPI_Allreduce";
    from_library |= !symbol.defined && symbol.name.substr(0, 5) == "PMPI_";
  });
  return own && !from_library && has_interpreter(file);
}

}  // namespace ddl
