// Everything decided about a start of mpirun, as a value: --dry-run prints it, supervise carries
// it out. Pure: (options, allocation, mpirun, installation, system) -> JobSpec. Throws UsageError for
// an option this mpirun lacks, LaunchError for an installation that cannot work.
#pragma once

#include "launcher/allocation.hpp"
#include "launcher/exec_env.hpp"
#include "launcher/mpirun_info.hpp"
#include "launcher/options.hpp"
#include "launcher/program.hpp"
#include "launcher/system.hpp"

namespace ddl {

struct JobSpec {
  Strings command;          // mpirun and its words; no shell reads them
  Assignments environment;  // set for mpirun
};

struct JobInputs {
  const Options& options;
  const Allocation& allocation;
  const MpirunInfo& mpirun;
  const Installation& installation;
  const System& world;
};

/// The job under the engine: every program wrapped by ddl-exec.
JobSpec engine_job(const JobInputs& in);
/// The same job as the user would start it with mpirun itself, for --compare: with mpirun's own binding, the
/// rank's variables as under the engine, and the shim only to measure, into `report` ("": not at all).
enum class Measures {
  calls,  // counts and times each all-reduce, which takes it a tenth of a microsecond
  start,  // only how long the program takes between MPI_Init and MPI_Finalize
};
JobSpec plain_job(const JobInputs& in, Measures measures, const std::string& report);
/// One process of `program` on `host`, reached as the job would reach it.
JobSpec helper_job(const JobInputs& in, const std::string& host, const Strings& program);

/// Where rank 0 will be; "" where it need not be known (all ranks are here) or cannot be.
std::string rank_zero_host(const JobInputs& in);

/// Will a rank of this program be on this machine?
bool surely_starts_here(const JobInputs& in, const AppContext& app);

/// Did the user say how ranks are bound: by an option, a parameter or a variable?
bool user_chose_binding(const Options& options, const System& world);
/// The value for DDL_OPTIONS, "" when nothing is to be set.
std::string ddl_options_value(const Options& options, const Allocation& allocation,
                              const std::string& existing);
/// Where mpirun looks for a program: with the user's --path, -x PATH=... and -wdir.
ProgramSearch program_search(const AppContext& app, const System& world);

}  // namespace ddl
