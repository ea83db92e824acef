#include "launcher/accelerators.hpp"

#include <algorithm>

#include "launcher/allocation.hpp"
#include "launcher/mpirun_options.hpp"

namespace ddl {
namespace {

using Question = bool (*)(std::string_view name, const Strings& values);

bool any_option(const Options& options, Question question) {
  const std::vector<PassedOption> all = options.all_passed();
  return std::any_of(all.begin(), all.end(),
                     [&](const PassedOption& option) { return question(option.name, option.values); });
}

// mpirun takes hosts without slots for hosts with one; relative names (+n1) cannot carry a number.
bool can_take_slots(const HostList& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [](const HostSlots& h) { return h.host.front() != '+'; });
}

void give_slots(AppContext& app, std::uint64_t slots) {
  for (PassedOption& option : app.options) {
    if (!is_host_list(option.name)) continue;
    HostList hosts = parse_host_list(option.values[0]);
    for (HostSlots& host : hosts) host.slots = slots;
    option.values[0] = host_list_text(hosts);
  }
}

}  // namespace

Options with_rank_per_accelerator(Options options, const System& world) {
  if (!options.accelerators || options.apps.size() != 1 || any_option(options, counts_ranks)) return options;
  Allocation allocation = resolve_allocation(options, world);
  const HostList& hosts = allocation.hosts;
  const std::uint64_t each = *options.accelerators;
  AppContext& app = options.apps.front();
  bool listed = allocation.source == AllocationSource::host_option;
  if (listed && std::any_of(hosts.begin(), hosts.end(), [](const HostSlots& h) { return h.slots > 0; }))
    return options;
  options.ranks_per_host = each;
  // Beside a mapping mpirun 4 ignores -N without a word.
  bool in_all = allocation.source == AllocationSource::this_machine || any_option(options, chooses_mapping);
  if (listed && can_take_slots(hosts))
    give_slots(app, each);
  else if (in_all)
    app.options.push_back({"-np", "np", {std::to_string(each * hosts.size())}});
  else
    app.options.push_back({"-N", "N", {std::to_string(each)}});
  return options;
}

}  // namespace ddl
