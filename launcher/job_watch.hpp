// JobWatch: looks from outside at the processes that mpirun has started on this host, to tell afterwards why
// the engine did not serve them: what does not load our libraries cannot say so itself. It stops looking as
// soon as one of them has loaded a front of ours: then a report tells the rest.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>

namespace ddl {

/// What a process has mapped.
struct MappedLibraries {
  bool shim = false;                     // ours
  bool front = false;                    // MPI's or another of ours
  bool other_front = false;              // gloo's, NCCL's, or the engine without a front: a program of ddl.h
  bool open_mpi = false, mpich = false;  // libraries of MPI
  friend bool operator==(const MappedLibraries&, const MappedLibraries&) = default;
};
/// From the text of /proc/PID/maps. Pure.
MappedLibraries libraries_in(std::string_view maps);

/// What was seen of all processes together.
struct JobSeen {
  bool front = false, other_front = false;
  std::string without_shim;  // a program that uses Open MPI without the shim, "" none
  std::string mpich;         // a program that uses MPICH or one like it: they have the same libmpi.so.12
  std::string with_mpi;      // a program that uses Open MPI at all
};
/// `programs`: name and libraries of each process. Pure.
JobSeen seen_of(const std::map<pid_t, std::pair<std::string, MappedLibraries>>& programs);

class JobWatch {
 public:
  /// Looks at what descends from that process. Returns the pause until the next look is worth while, 0: none
  /// is.
  std::chrono::milliseconds look(pid_t root);
  JobSeen seen() const { return seen_of(programs_); }

 private:
  void look_below(pid_t process);

  std::chrono::milliseconds pause_{30};
  int looks_ = 0;
  std::map<pid_t, std::pair<std::string, MappedLibraries>> programs_;
};

}  // namespace ddl
