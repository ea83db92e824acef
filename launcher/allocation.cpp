#include "launcher/allocation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "launcher/mca_parameters.hpp"
#include "launcher/mpirun_options.hpp"

namespace ddl {
namespace {

std::string read(const std::string& file, const System& world, const std::string& what) {
  if (auto text = world.file(absolute_path(file, world.directory))) return *text;
  throw UsageError(fmt::format("the {} {} cannot be read", what, file), "it names the hosts of the job",
                   "check its name and permissions");
}

Allocation from_hostfiles(const Strings& files, const System& world) {
  Allocation allocation{AllocationSource::hostfile, {}};
  for (const std::string& file : files) {
    const std::string text = read(file, world, "hostfile");
    allocation.is_foreign_hostfile |= has_colon_slots(text);
    for (const HostSlots& entry : parse_host_file(text, file)) allocation.hosts.push_back(entry);
  }
  return allocation;
}

Allocation from_slurm(const std::string& nodes, const std::string& tasks_text) {
  Allocation allocation{AllocationSource::slurm, {}};
  std::vector<std::uint64_t> tasks;
  if (!tasks_text.empty()) tasks = expand_slurm_tasks(tasks_text);
  for (const std::string& name : expand_slurm_nodes(nodes)) {
    std::size_t index = allocation.hosts.size();
    allocation.hosts.push_back({name, index < tasks.size() ? tasks[index] : 0});
  }
  return allocation;
}

// `host slots queue processors` in each line.
Allocation from_grid_engine(const std::string& file, const System& world) {
  Allocation allocation{AllocationSource::grid_engine, {}};
  for (const std::string& line : split(read(file, world, "Grid Engine hostfile"), '\n')) {
    std::istringstream words(line);
    std::string host, slots;
    if (words >> host >> slots) allocation.hosts.push_back({host, parse_number(slots)});
  }
  if (allocation.hosts.empty())
    throw UsageError(fmt::format("the Grid Engine hostfile {} names no host", file));
  return allocation;
}

// Without a job's number mpirun takes no notice of the others.
bool in_slurm_job(const System& world) {
  return !world.variable("SLURM_JOB_ID").empty() || !world.variable("SLURM_JOBID").empty();
}

// Only where all of these are set mpirun takes notice of them.
bool in_grid_engine_job(const System& world) {
  const auto names = {"SGE_ROOT", "ARC", "JOB_ID", "PE_HOSTFILE"};
  return std::none_of(names.begin(), names.end(), [&](auto name) { return world.variable(name).empty(); });
}

// The text of a file that a scheduler's variable names. A container may have the variable and not the file:
// then mpirun starts the job on this machine.
std::optional<std::string> of_scheduler(const char* variable, const std::string& file, const System& world,
                                        std::string& note) {
  std::optional<std::string> text = world.file(absolute_path(file, world.directory));
  if (!text)
    note = fmt::format(
        "{}={} is not used (it cannot be read, so this seems to be no such job); -H or a hostfile names the "
        "hosts",
        variable, file);
  return text;
}

Allocation choose(const Options& options, const System& world) {
  std::string note;
  if (Strings lists = options.values_of(is_host_list); !lists.empty())
    return {AllocationSource::host_option, parse_host_list(join(lists, ","))};
  if (Strings files = options.values_of(is_host_file); !files.empty()) return from_hostfiles(files, world);
  std::string slurm = world.variable("SLURM_JOB_NODELIST");
  if (slurm.empty()) slurm = world.variable("SLURM_NODELIST");
  if (!slurm.empty() && in_slurm_job(world)) return from_slurm(slurm, world.variable("SLURM_TASKS_PER_NODE"));
  if (std::string file = world.variable("LSB_DJOB_HOSTFILE"); !file.empty())
    if (auto text = of_scheduler("LSB_DJOB_HOSTFILE", file, world, note))
      return {AllocationSource::lsf, parse_slot_file(*text, file)};
  if (std::string hosts = world.variable("LSB_MCPU_HOSTS"); !hosts.empty())
    return {AllocationSource::lsf, parse_lsf_hosts(hosts)};
  if (std::string file = world.variable("PBS_NODEFILE"); !file.empty())
    if (auto text = of_scheduler("PBS_NODEFILE", file, world, note))
      return {AllocationSource::pbs, parse_slot_file(*text, file)};
  if (in_grid_engine_job(world)) return from_grid_engine(world.variable("PE_HOSTFILE"), world);
  if (std::string file = default_hostfile(options, world); !file.empty()) {
    const std::string text = read(file, world, "default hostfile");
    return {AllocationSource::default_hostfile, parse_host_file(text, file), note};
  }
  Allocation here{AllocationSource::this_machine, {{world.host, 0}}, note};
  if (!slurm.empty())
    here.note = fmt::format(
        "SLURM_JOB_NODELIST={} is not used (there is no SLURM_JOB_ID, so this is no Slurm job); the job runs "
        "on this machine, -H names others",
        slurm);
  return here;
}

void check_shape(const Options& options, std::size_t hosts) {
  if (!options.aisles && !options.racks && !options.nodes) return;
  std::uint64_t aisles = options.aisles.value_or(1), racks = options.racks.value_or(1);
  std::uint64_t nodes = options.nodes.value_or(hosts / (aisles * racks));
  if (aisles * racks * nodes != hosts)
    throw UsageError(fmt::format("{} aisles x {} racks x {} nodes are {} hosts", aisles, racks, nodes,
                                 aisles * racks * nodes),
                     fmt::format("the job has {}", hosts),
                     "make -aisles, -racks and -nodes fit the host list");
}

}  // namespace

bool is_started_by_scheduler(const System& world) { return in_slurm_job(world) || in_grid_engine_job(world); }

Allocation resolve_allocation(const Options& options, const System& world) {
  Allocation allocation = choose(options, world);
  check_shape(options, allocation.hosts.size());
  return allocation;
}

std::string name_of(AllocationSource source) {
  switch (source) {
    case AllocationSource::host_option:
      return "-H";
    case AllocationSource::hostfile:
      return "the hostfile";
    case AllocationSource::slurm:
      return "Slurm";
    case AllocationSource::lsf:
      return "LSF";
    case AllocationSource::pbs:
      return "PBS";
    case AllocationSource::grid_engine:
      return "Grid Engine";
    case AllocationSource::default_hostfile:
      return "the default hostfile";
    case AllocationSource::this_machine:
      break;
  }
  return "this machine alone";
}

}  // namespace ddl
