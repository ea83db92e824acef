#include "launcher/slots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "launcher/mpirun_options.hpp"

namespace ddl {
namespace {

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](auto start) { return text.starts_with(start); });
}

bool is_about_slots(std::string_view parameter) {
  return starts_with_any(parameter, {"rmaps", "hwloc", "ras", "orte", "prte", "mca"});
}

// What changes how mpirun counts, or how it takes too many.
bool changes_slots(const PassedOption& option) {
  if (is_rank_count(option.name) || is_host_list(option.name)) return false;
  if (option.name == "mca" || option.name == "gmca" || option.name == "prtemca")
    return is_about_slots(option.values[0]);
  static const Strings others = {"map-by",
                                 "rank-by",
                                 "bycore",
                                 "bynode",
                                 "byslot",
                                 "oversubscribe",
                                 "rf",
                                 "rankfile",
                                 "N",
                                 "npernode",
                                 "npersocket",
                                 "pernode",
                                 "ppr",
                                 "nolocal",
                                 "use-hwthread-cpus",
                                 "cpus-per-proc",
                                 "cpus-per-rank",
                                 "am",
                                 "amca",
                                 "tune",
                                 "cpu-list",
                                 "cpu-set",
                                 "hnp",
                                 "dvm-uri",
                                 "add-host",
                                 "add-hostfile",
                                 "pset",
                                 "cartofile",
                                 "personality",
                                 "default-hostfile"};
  return std::find(others.begin(), others.end(), option.name) != others.end();
}

// Of a file of parameters or hosts, without comments and blanks in front.
Strings lines_of(const std::string& file, const System& world) {
  Strings lines;
  if (auto text = world.file(file))
    for (const std::string& line : split(*text, '\n'))
      if (std::size_t word = line.find_first_not_of(" \t"); word != std::string::npos && line[word] != '#')
        lines.push_back(line.substr(word));
  return lines;
}

// mpirun takes parameters from variables and files too.
bool changed_elsewhere(const Options& options, const System& world) {
  if (!options.mpi_args.empty() || !world.variable("SLURM_JOB_ID").empty()) return true;
  for (const char* name :
       {"OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_rmaps_base_mapping_policy",
        "OMPI_MCA_rmaps_base_no_oversubscribe", "OMPI_MCA_hwloc_base_use_hwthreads_as_cpus",
        "OMPI_MCA_orte_set_slots", "OMPI_MCA_orte_default_hostfile", "OMPI_MCA_mca_base_param_files",
        "PRTE_MCA_rmaps_default_mapping_policy", "PRTE_MCA_prte_set_slots",
        "PRTE_MCA_hwloc_use_hwthreads_as_cpus"})
    if (!world.variable(name).empty()) return true;
  const std::string home = world.variable("HOME"), etc = "/etc/openmpi/openmpi-";
  for (const std::string& file :
       {home + "/.openmpi/mca-params.conf", home + "/.prte/mca-params.conf", etc + "mca-params.conf"})
    for (const std::string& line : lines_of(file, world))
      if (is_about_slots(line)) return true;
  return !lines_of(etc + "default-hostfile", world).empty();
}

std::optional<std::uint64_t> ranks_of(const AppContext& app) {
  std::optional<std::uint64_t> ranks;
  for (const PassedOption& option : app.options) {
    if (changes_slots(option)) return std::nullopt;
    if (is_rank_count(option.name)) ranks = parse_number(option.values[0]);
  }
  return ranks;
}

// What all ranks together may take; nothing where only mpirun knows.
std::optional<std::uint64_t> slots_of(const Options& options, const Allocation& allocation,
                                      std::uint64_t cores) {
  if (allocation.source == AllocationSource::this_machine) return cores;
  if (allocation.source == AllocationSource::slurm || options.apps.size() > 1) return std::nullopt;
  for (const std::string& list : options.values_of(is_host_list))
    if (list.find_first_of("*+^") != std::string::npos || list.find("auto") != std::string::npos)
      return std::nullopt;
  std::uint64_t sum = 0;
  for (const HostSlots& host : allocation.hosts) {
    if (host.slots == 0 && allocation.source != AllocationSource::host_option) return std::nullopt;
    sum += std::max<std::uint64_t>(1, host.slots);
  }
  return sum;
}

}  // namespace

void check_slots(const Options& options, const Allocation& allocation, const System& world,
                 std::uint64_t cores) {
  if (options.skip_checks || cores == 0 || changed_elsewhere(options, world)) return;
  std::uint64_t ranks = 0;
  Strings programs;
  for (const AppContext& app : options.apps) {
    auto own = ranks_of(app);
    if (!own) return;
    ranks += *own;
    programs.push_back(app.program);
  }
  auto slots = slots_of(options, allocation, cores);
  if (!slots || ranks <= *slots) return;
  bool here = allocation.source == AllocationSource::this_machine;
  throw UsageError(
      fmt::format("{} ranks of {} are more than the {} slots of {}", ranks, join(programs, " and "), *slots,
                  here ? "this machine, its cores" : name_of(allocation.source)),
      "mpirun would not start them",
      here ? "add --oversubscribe to let ranks share cores, or start fewer"
           : "give the hosts more slots, add --oversubscribe to let ranks share them, or start fewer");
}

}  // namespace ddl
