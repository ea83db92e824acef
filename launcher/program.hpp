// The user's program as a file: where it is, found as mpirun would, and whether a preloaded library can reach
// it, and what it wants of GPUs.
#pragma once

#include <optional>
#include <string>

namespace ddl {

struct ProgramSearch {
  std::string extra_path;  // mpirun's --path
  std::string path;        // PATH
  std::string directory;   // where the program starts; a bare name is looked for there last
};

/// The file, absolute; "" when there is none that can be executed.
std::string find_program(const std::string& name, const ProgramSearch& search);

/// Why a program cannot be started, as a message says it.
struct ProgramTrouble {
  std::string problem, reason, cure;
  bool is_there = false;  // the file is, but cannot be executed
};
/// Nothing where find_program() finds one that needs no hint_for_script().
std::optional<ProgramTrouble> trouble_with_program(const std::string& name, const ProgramSearch& search);

/// What to write instead of a program that cannot be executed as it is: "python3 x.py" for a script of
/// Python's that is not executable or does not name its interpreter; "" where there is nothing to say. `name`
/// as the user wrote it, looked for in `directory`.
std::string hint_for_script(const std::string& name, const std::string& directory);

enum class Preloadable {
  yes,         // a dynamic ELF program, or a script
  statically,  // no dynamic linker will run: nothing can be preloaded
  privileged,  // setuid or setgid: the dynamic linker ignores LD_PRELOAD
};
Preloadable judge_program(const std::string& file);

/// What the program's own symbols say; nothing of the libraries it loads, and little of a stripped program.
struct GpuUse {
  bool cuda = false;         // it names functions of CUDA or NCCL
  bool nccl_inside = false;  // it contains NCCL: its calls go past every preloaded library
};
GpuUse gpu_use(const std::string& file);

/// Does a dynamic program contain MPI, rather than a tool's functions that call one? Nothing can come between
/// its calls.
bool contains_mpi(const std::string& file);

}  // namespace ddl
