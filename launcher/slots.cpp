#include "launcher/slots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "launcher/mca_parameters.hpp"
#include "launcher/mpirun_options.hpp"

namespace ddl {
namespace {

bool is_count_per_host(std::string_view name) { return name == "N" || name == "npernode"; }

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](auto start) { return text.starts_with(start); });
}

bool is_about_slots(std::string_view parameter) {
  return starts_with_any(parameter, {"rmaps", "hwloc", "ras", "orte", "prte", "mca"});
}

// What changes how mpirun counts, or how it takes too many.
bool changes_slots(const PassedOption& option) {
  if (is_rank_count(option.name) || is_host_list(option.name) || is_count_per_host(option.name)) return false;
  static const Strings others = {
      "map-by",        "rank-by",    "bycore",     "bynode", "byslot",  "oversubscribe",     "rf",
      "rankfile",      "npersocket", "pernode",    "ppr",    "nolocal", "use-hwthread-cpus", "cpus-per-proc",
      "cpus-per-rank", "cpu-list",   "cpu-set",    "hnp",    "dvm-uri", "add-host",          "add-hostfile",
      "pset",          "cartofile",  "personality"};
  return std::find(others.begin(), others.end(), option.name) != others.end();
}

// mpirun takes parameters from variables and files too, and reads what some schedulers and files give a job.
bool changed_elsewhere(const Options& options, const System& world) {
  if (!options.mpi_args.empty() || is_started_by_scheduler(world)) return true;
  const McaParameters set = mca_parameters(options, world);
  return !default_hostfile(options, world).empty() ||
         std::any_of(set.begin(), set.end(), [](const auto& one) { return is_about_slots(one.name); });
}

struct Wanted {
  std::optional<std::uint64_t> ranks, per_host;
};

// Nothing where only mpirun knows.
std::optional<Wanted> wanted_by(const AppContext& app) {
  Wanted wanted;
  for (const PassedOption& option : app.options) {
    if (changes_slots(option)) return std::nullopt;
    if (is_rank_count(option.name)) wanted.ranks = parse_number(option.values[0]);
    if (is_count_per_host(option.name)) wanted.per_host = parse_number(option.values[0]);
  }
  return wanted;
}

bool has_open_list(const Options& options) {
  const Strings lists = options.values_of(is_host_list);
  return std::any_of(lists.begin(), lists.end(), [](const std::string& list) {
    return list.find_first_of("*+^") != std::string::npos || list.find("auto") != std::string::npos;
  });
}

// 0: only mpirun knows.
std::uint64_t slots_on(const HostSlots& host, AllocationSource source) {
  return host.slots == 0 && source == AllocationSource::host_option ? 1 : host.slots;
}

// What all ranks together may take; nothing where only mpirun knows.
std::optional<std::uint64_t> slots_of(const Options& options, const Allocation& allocation,
                                      std::uint64_t cores) {
  if (allocation.source == AllocationSource::this_machine) return cores;
  if (options.apps.size() > 1) return std::nullopt;
  if (has_open_list(options)) return std::nullopt;
  std::uint64_t sum = 0;
  for (const HostSlots& host : allocation.hosts) {
    const std::uint64_t slots = slots_on(host, allocation.source);
    if (slots == 0) return std::nullopt;
    sum += slots;
  }
  return sum;
}

UsageError too_many(const std::string& ranks, const std::string& slots, AllocationSource source) {
  return UsageError(
      fmt::format("{} are more than the {}", ranks, slots), "mpirun would not start them",
      source == AllocationSource::this_machine
          ? "add --oversubscribe to let ranks share cores, or start fewer"
          : "give the hosts more slots, add --oversubscribe to let ranks share them, or start fewer");
}

// So many ranks on each host, as long as there are any: where a total is said too, surely on the first.
void check_each_host(const Wanted& wanted, const Options& options, const Allocation& allocation,
                     std::uint64_t cores) {
  if (has_open_list(options)) return;
  const std::uint64_t ranks = std::min(*wanted.per_host, wanted.ranks.value_or(*wanted.per_host));
  const std::string what = fmt::format("{} ranks of {}", ranks, options.apps.front().program);
  const std::uint64_t hosts = allocation.hosts.size();
  if (wanted.ranks && *wanted.ranks > *wanted.per_host * hosts)
    throw UsageError(fmt::format("{} ranks of {} are more than {} on each of {} host{}", *wanted.ranks,
                                 options.apps.front().program, *wanted.per_host, hosts, hosts > 1 ? "s" : ""),
                     "mpirun would not start them", "allow more on a host, or start fewer");
  const bool is_here = allocation.source == AllocationSource::this_machine;
  if (is_here && ranks > cores)
    throw too_many(what, fmt::format("{} slots of this machine, its cores", cores), allocation.source);
  for (std::size_t i = 0; !is_here && i < (wanted.ranks ? 1 : hosts); ++i)
    if (auto slots = slots_on(allocation.hosts[i], allocation.source); slots > 0 && ranks > slots)
      throw too_many(what + " on a host", fmt::format("{} slots of {}", slots, allocation.hosts[i].host),
                     allocation.source);
}

}  // namespace

void check_slots(const Options& options, const Allocation& allocation, const System& world,
                 std::uint64_t cores) {
  if (options.skip_checks || cores == 0 || changed_elsewhere(options, world)) return;
  std::uint64_t ranks = 0;
  Strings programs;
  for (const AppContext& app : options.apps) {
    const auto wanted = wanted_by(app);
    if (!wanted || (wanted->per_host && options.apps.size() > 1)) return;
    if (wanted->per_host) check_each_host(*wanted, options, allocation, cores);
    if (!wanted->ranks) return;
    ranks += *wanted->ranks;
    programs.push_back(app.program);
  }
  const auto slots = slots_of(options, allocation, cores);
  if (!slots || ranks <= *slots) return;
  const bool is_here = allocation.source == AllocationSource::this_machine;
  throw too_many(
      fmt::format("{} ranks of {}", ranks, join(programs, " and ")),
      fmt::format("{} slots of {}", *slots, is_here ? "this machine, its cores" : name_of(allocation.source)),
      allocation.source);
}

}  // namespace ddl
