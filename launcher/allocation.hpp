// Where the job may run, and who said so: -H, a hostfile, Slurm, LSF, PBS, Grid Engine, mpirun's default
// hostfile, else this machine. Pure:
// everything comes in as a value. Throws UsageError for an unreadable or malformed file and for aisles ×
// racks × nodes that are not the number of hosts.
#pragma once

#include "launcher/hostlist.hpp"
#include "launcher/options.hpp"
#include "launcher/system.hpp"

namespace ddl {

enum class AllocationSource {
  host_option,
  hostfile,
  slurm,
  lsf,
  pbs,
  grid_engine,
  default_hostfile,
  this_machine
};

struct Allocation {
  AllocationSource source = AllocationSource::this_machine;
  HostList hosts;      // never empty
  std::string note{};  // what was found and not used; "" nothing
  /// mpirun cannot read this scheduler's allocation itself, so it must be told with -H.
  bool mpirun_needs_hosts() const {
    return source == AllocationSource::lsf || source == AllocationSource::pbs;
  }
  /// mpirun gets the hosts by -H or --hostfile, the user's or ours.
  bool is_by_option() const {
    return source == AllocationSource::host_option || source == AllocationSource::hostfile ||
           mpirun_needs_hosts();
  }
  /// The hostfile is of MPICH's form, `host:slots`, which Open MPI takes for a host's name: then -H instead.
  bool is_foreign_hostfile = false;
};

/// Slurm, Grid Engine: mpirun counts the slots that the job was given, and starts ranks by a starter of the
/// scheduler's, whichever hosts the user names.
bool is_started_by_scheduler(const System& world);
Allocation resolve_allocation(const Options& options, const System& world);
std::string name_of(AllocationSource source);

}  // namespace ddl
