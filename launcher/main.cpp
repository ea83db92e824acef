// ddlrun: argv -> Options -> Allocation -> JobSpec -> mpirun. Everything up to the JobSpec is decided by pure
// functions; this file carries it out and is where errors end.
#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <set>
#include <thread>

#include "core/base/env.hpp"
#include "launcher/accelerators.hpp"
#include "launcher/compare.hpp"
#include "launcher/core_binding.hpp"
#include "launcher/explain.hpp"
#include "launcher/gpu_sharing.hpp"
#include "launcher/help.hpp"
#include "launcher/messages.hpp"
#include "launcher/program.hpp"
#include "launcher/reachability.hpp"
#include "launcher/report_check.hpp"
#include "launcher/report_table.hpp"
#include "launcher/slots.hpp"
#include "launcher/supervise.hpp"
#include "launcher/topology_view.hpp"
#include "launcher/watched_job.hpp"

namespace ddl {
namespace {

void print_out(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void show(Action action) {
  switch (action) {
    case Action::show_help:
      return print_out(help_text());
    case Action::show_env_help:
      return print_out(env_help());
    case Action::show_env_markdown:
      return print_out(env_markdown());
    case Action::show_version:
      return print_out(version_text() + "\n");
    case Action::run:
      return;
  }
}

// Unknown names warn, garbage values throw: in the environment and in -x alike.
void check_variables(const Options& options, const System& world) {
  Strings entries = world.entries;
  for (const std::string& entry : options.values_of([](std::string_view name) { return name == "x"; }))
    entries.push_back(entry);
  for (const std::string& warning : parse_env(entries).warnings) print_warning(warning);
}

// Only where this machine surely takes part: elsewhere ddl-exec reports it on the host.
void check_programs(const JobInputs& in) {
  if (in.options.skip_checks) return;
  for (const AppContext& app : in.options.apps)
    if (surely_starts_here(in, app))
      if (const auto trouble = trouble_with_program(app.program, program_search(app, in.world)))
        throw LaunchError(fmt::format("the program {} {}", app.program, trouble->problem), trouble->reason,
                          trouble->cure);
}

// What rank 0 will write, where that is on this machine; --report is read here in any case.
void check_places(const JobInputs& in) {
  const bool is_near = host_of_rank_zero_if_far(in).empty();
  const bool is_read = !in.options.report_file.empty();
  if (std::string file = report_named_by_user(in); !file.empty() && (is_near || is_read))
    check_place("report", file);
  if (std::string file = file_named_by("DDL_TUNE_CACHE", in); !file.empty() && is_near)
    check_place("tuning cache", file);
}

// Said here, once for the job, by whatever file of that name this machine has: where it takes no part, it
// mostly shares the file system with those that do.
void warn_of_libraries_inside(const JobInputs& in) {
  std::set<std::string> files;
  for (const AppContext& app : in.options.apps)
    files.insert(find_program(app.program, program_search(app, in.world)));
  files.erase("");
  auto warn = [](const std::string& file, const char* library, const char* way_out) {
    print_warning(
        fmt::format("{} contains {} (the calls of a statically linked {} cannot be intercepted, they run "
                    "without the engine); {}",
                    file, library, library, way_out));
  };
  for (const std::string& file : files) {
    if (gpu_use(file).nccl_inside)
      warn(file, "NCCL", "link NCCL dynamically, for instance build PyTorch with USE_SYSTEM_NCCL=1");
    if (contains_mpi(file)) warn(file, "MPI", "link it with libmpi.so");
  }
}

int run_and_tell(const JobInputs& in, const JobSpec& job, const ReportPlace& report) {
  const WatchedEnd ended = run_watched(in, job, report);
  print_note(engine_line(ended.facts));
  return ended.end.code;
}

int run_job(const JobInputs& given) {
  const Options& options = given.options;
  if (!options.verbose && !options.compare && options.report_file.empty()) {
    const int code = supervise(engine_job(given)).code;
    remove_unfinished(report_named_by_user(given));
    return code;
  }
  ReportPlace report(given);
  Options reporting = options;
  reporting.report_file = report.file();
  const JobInputs in{reporting, given.allocation, given.mpirun, given.installation, given.world};
  const JobSpec job = engine_job(in);
  if (options.verbose) print_note("+ " + shell_line(job.command));
  check_is_read_again(report.file());
  int code = options.compare ? run_comparison(in, report) : run_and_tell(in, job, report);
  if (options.report_file == "-")
    print_out(report_table(report.file().empty() ? "" : report.text(report.before())));
  else if (!options.report_file.empty())
    tell_about_report(report.file(), report.before());
  return code;
}

// As ddl-exec will say it when it has seen the ranks of its host.
std::string sharing_here(const JobInputs& in, const NodeTopology& node) {
  std::size_t ranks =
      expected_hosts(in.options, in.allocation, in.world, std::thread::hardware_concurrency()).size();
  std::string line = sharing_line(ranks, node, in.world);
  return line.empty() ? line : fmt::format("GPUs          {}\n", line);
}

int dry_run(const JobInputs& in) {
  JobSpec job = engine_job(in);
  std::string sharing;
  // Only this machine is looked at: looking at another would start something there.
  if (in.allocation.source == AllocationSource::this_machine)
    if (auto node = probe_this_machine(in.installation, kProbeLimit)) {
      print_out(drawing({{*node}, {}}, in.world, Picture::text));
      sharing = sharing_here(in, *node);
    }
  print_out(describe_job(in, job) + sharing + "+ " + shell_line(job.command) + "\n");
  return 0;
}

int run(const Strings& args) {
  System world = this_system();
  Options options = parse_options(
      args, [&](const std::string& file) { return world.file(absolute_path(file, world.directory)); });
  show(options.action);
  if (options.action != Action::run) return 0;
  check_variables(options, world);
  options = with_rank_per_accelerator(std::move(options), world);
  Allocation allocation = resolve_allocation(options, world);
  if (!allocation.note.empty()) print_warning(allocation.note);
  const std::uint64_t cores = std::thread::hardware_concurrency();
  options = with_ranks_of_hosts(std::move(options), allocation, world, cores);
  if (options.explain) {
    print_out(explain(options, allocation, world, cores, list_nics()));
    return 0;
  }
  MpirunInfo mpirun = find_mpirun();
  if (options.verbose && mpirun.command != "mpirun")
    print_note(fmt::format("the mpirun on PATH is not Open MPI's, {} is used", mpirun.command));
  Installation installation = this_installation();
  JobInputs in{options, allocation, mpirun, installation, world};
  if (options.has_program()) {
    check_ddl_options(options, allocation, world, cores);
    check_programs(in);
    check_places(in);
    if (!options.dry_run) check_slots(options, allocation, world, machine_cores());
    warn_of_libraries_inside(in);
  }
  if (options.dry_run) return dry_run(in);
  check_hosts(in);
  if (options.topology) show_topology(in);
  return options.has_program() ? run_job(in) : 0;
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  // Who is started with it ignored, by a daemon, would never hear how its own children ended.
  signal(SIGCHLD, SIG_DFL);
  try {
    return ddl::run(ddl::Strings(argv + 1, argv + argc));
  } catch (const ddl::UsageError& error) {
    ddl::print_error(error.what());
    return ddl::kExitUsage;
  } catch (const std::exception& error) {
    // A program may exit with 3 too: this line is the difference.
    ddl::print_error(std::string("the job is not started: ") + error.what());
    return ddl::kExitLaunch;
  }
}
