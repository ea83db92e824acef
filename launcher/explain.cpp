#include "launcher/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/base/partition.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/wire_rule.hpp"
#include "core/tune/ddl_options.hpp"
#include "launcher/explain_gradients.hpp"
#include "launcher/explain_original.hpp"
#include "launcher/explain_words.hpp"
#include "launcher/job_spec.hpp"
#include "launcher/mpirun_options.hpp"

namespace ddl {
namespace {

constexpr Bytes kSizes[] = {Bytes{4} << 10, Bytes{64} << 10, Bytes{1} << 20, Bytes{16} << 20,
                            Bytes{256} << 20};

// Ranks over all programs; nothing when one of them does not say.
std::uint64_t ranks_asked(const Options& options) {
  std::uint64_t ranks = 0;
  for (const AppContext& app : options.apps) {
    std::uint64_t own = 0;
    for (const PassedOption& option : app.options)
      if (is_rank_count(option.name)) own = parse_number(option.values[0]);
    if (own == 0) return 0;
    ranks += own;
  }
  return ranks;
}

// Ranks on each host (-N); nothing when it is not said, or several programs say it each for itself, or beside
// a mapping, where mpirun 4 ignores it.
std::uint64_t ranks_per_host(const Options& options) {
  std::uint64_t each = 0;
  if (options.apps.size() != 1) return each;
  for (const PassedOption& option : options.apps[0].options) {
    if (option.name == "N" || option.name == "npernode") each = parse_number(option.values[0]);
    if (option.name == "pernode") each = 1;
    if (chooses_mapping(option.name, option.values)) return 0;
  }
  return each;
}

bool mapped_by_node(const Options& options) {
  for (const AppContext& app : options.apps)
    for (const PassedOption& option : app.options)
      if (option.name == "bynode" || (option.name == "map-by" && option.values[0].rfind("node", 0) == 0))
        return true;
  return false;
}

// The variables as the ranks will see them.
Env variables_of_ranks(const Options& options, const System& world) {
  Strings entries = world.entries;
  for (const std::string& entry : options.values_of([](std::string_view name) { return name == "x"; }))
    entries.push_back(entry);
  return parse_env(entries);
}

std::vector<HostIndex> fake_hosts(const std::vector<int>& sizes, std::size_t ranks) {
  std::vector<HostIndex> hosts;
  for (std::size_t h = 0; h < sizes.size(); ++h)
    hosts.insert(hosts.end(), static_cast<std::size_t>(std::max(0, sizes[h])), static_cast<HostIndex>(h));
  if (hosts.size() != ranks) hosts.assign(ranks, 0);  // the engine refuses it with a message of its own
  return hosts;
}

// DDL_OPTIONS as the ranks will see it. UsageError when its dimensions do not fit them.
DdlOptions ddl_options_of_ranks(const Options& options, const Allocation& allocation, const System& world,
                                const std::vector<HostIndex>& hosts) {
  std::string given = variables_of_ranks(options, world).options;
  std::string text = ddl_options_value(options, allocation, given);
  DdlOptions asked = parse_ddl_options(text.empty() ? given : text, static_cast<Rank>(hosts.size()));
  if (!asked.dims.empty() && !hosts.empty()) Grid::from_dims(hosts, asked.dims);
  return asked;
}

// The rails of a host like this machine, as it would use them; none when it lacks one that is asked for.
std::vector<Nic> rails_like_here(const Env& env, const std::vector<Nic>& nics) {
  RailChoice choice = choose_rails(nics, wanted_rails(env));
  return choice.missing.empty() ? choice.rails : std::vector<Nic>();
}

PlanLimits limits_of(const Env& env, const std::vector<Nic>& rails) {
  PlanLimits limits;
  std::size_t wished = std::max<std::size_t>(1, wanted_rails(env).size());
  limits.rails = static_cast<LaneId>(rails.empty() ? wished : rails.size());
  std::vector<double> gbit;
  for (const Nic& rail : rails) gbit.push_back(rated_gbit(rail));
  limits.machine = machine_over(gbit);
  limits.staging = staging_of_a_call(env.staging_bytes);
  limits.segment = env.segment_bytes;
  return limits;
}

constexpr const char* kStageRow = "            {:<15}{:<11}{:<11}{:>8} {:>10} {:>11}\n";

std::string head_text() {
  return fmt::format("each rank   {:<15}{:<11}{:<11}{:>8} {:>10} {:>11}\n", "does", "over", "by", "messages",
                     "bytes sent", "time alone");
}

std::string stage_lines(const Grid& grid, const Prediction& predicted) {
  std::string text;
  for (const StageCost& stage : predicted.stages)
    text += fmt::format(kStageRow, stage.verb, grid.dimension(stage.dimension).name,
                        algorithm_name(stage.algorithm), fmt::format("{:.0f}", stage.messages),
                        size_text(stage.bytes), time_text(stage.seconds));
  return text;
}

// What the mode chooses, and what it chose that over.
std::vector<Candidate> choices(Mode mode, const Grid& grid, Bytes bytes, const PlanLimits& limits,
                               const WireFormat& wire) {
  if (mode != Mode::ring && mode != Mode::nccl) return candidates(grid, size_class(bytes), limits, wire);
  PlanChoice choice = ring_choice(grid, bytes, limits, wire);
  return {{choice, predict(grid, choice, size_class(bytes), limits.machine)}};
}

std::string explain_size(Mode mode, const Grid& grid, const std::vector<HostIndex>& hosts, Bytes bytes,
                         const PlanLimits& limits, const WireFormat& wire) {
  std::vector<Candidate> all = choices(mode, grid, bytes, limits, wire);
  const Candidate& chosen = all[0];
  auto segments = static_cast<std::uint64_t>(chosen.predicted.segments);
  std::string text = fmt::format("{:>8}  {}: {}{}\n", size_text(bytes), describe(grid, chosen.choice),
                                 time_text(chosen.predicted.seconds),
                                 segments > 1 ? fmt::format(", {} segments of {}, whose stages overlap",
                                                            segments, size_text(chosen.choice.segment))
                                              : std::string());
  text += stage_lines(grid, chosen.predicted);
  if (all.size() > 1)
    text += fmt::format("            instead of {}: {}, {}\n", describe(grid, all[1].choice),
                        time_text(all[1].predicted.seconds),
                        times_text(all[1].predicted.seconds, chosen.predicted.seconds));
  const OriginalEstimate original = estimate_original(hosts, bytes, limits);
  return text + fmt::format("            Open MPI's own, by {}: {}, {}\n", original.algorithm,
                            time_text(original.seconds),
                            times_text(original.seconds, chosen.predicted.seconds));
}

// "1 rail of unknown speed, 1 Gbit/s (119.5 MB/s of payload) assumed: eth0, as on this machine"
std::string rails_text(const PlanLimits& limits, const std::vector<Nic>& rails) {
  std::string count = fmt::format("{} rail{}", limits.rails, limits.rails > 1 ? "s" : "");
  const bool is_rated = !limits.machine.rail_rate.empty();
  std::vector<std::string> names;
  for (const Nic& rail : rails)
    names.push_back(is_rated ? fmt::format("{} {:g} Gbit/s", rail.name, rated_gbit(rail)) : rail.name);
  if (is_rated)
    return fmt::format("{}: {}, as the driver states on this machine", count, fmt::join(names, ", "));
  return fmt::format("{}, speed unknown: 1 Gbit/s assumed{} ({:.4g} MB/s of payload){}{}", count,
                     limits.rails > 1 ? " for each" : "", 1e-6 / limits.machine.wire.beta,
                     rails.empty() ? "" : fmt::format("; {}, as on this machine", fmt::join(names, ", ")),
                     rails.empty() && limits.rails == 1 ? "; DDL_RAILS names more" : "");
}

std::string assumptions(const Grid& grid, const PlanLimits& limits, const std::vector<Nic>& rails) {
  const Machine& machine = limits.machine;
  std::string text = fmt::format(
      "assumed   in a host {} a message, {:.3g} GB/s copied, {:.3g} GB/s added (not measured here)\n",
      time_text(machine.local.alpha), 1e-9 / machine.local.beta, 1e-9 / machine.gamma);
  for (int d = 0; d < grid.dimensions(); ++d)
    if (grid.dimension(d).fabric == Fabric::wire && grid.fanout(d) > 1)
      return text + fmt::format("          between hosts {} a message, {}\n", time_text(machine.wire.alpha),
                                rails_text(limits, rails));
  return text;
}

std::string_view trimmed(std::string_view word) {
  while (word.starts_with(' ')) word.remove_prefix(1);
  while (word.ends_with(' ')) word.remove_suffix(1);
  return word;
}

// Those that the text uses.
std::string words_text(const std::string& used) {
  static constexpr std::pair<const char*, const char*> kWords[] = {
      {" local ", "ranks of one host"},
      {" numa ", "ranks of one NUMA node"},
      {" hosts ", "ranks that have the same place in each host"},
      {"reduce-scatter", "afterwards each rank has its part of the sum"},
      {"all-gather", "afterwards each rank has all parts"},
      {" direct ", "everybody sends its part to each of the others, at once"},
      {" ring ", "around a circle: each link carries each byte once"},
      {" exchange ", "everybody sends everything to each of the others"},
      {" doubling ", "everything in pairs, in log2 of the ranks steps"},
      {" halving ", "parts in pairs, in twice log2 of the ranks steps"},
      {" funnel ", "everybody sends to one, who goes on alone and sends the result back"},
      {" bfloat16 ", "what elements of float32 travel as (DDL_WIRE_TYPE)"},
      {" float16 ", "what elements of float32 travel as (DDL_WIRE_TYPE)"},
      {" int8 ", "what elements of float32 travel as (DDL_WIRE_TYPE), with a scale per cache line"},
      {" everywhere", "within hosts, too (DDL_WIRE_TYPE_WHERE)"},
      {" fused,", "nonblocking calls that travel as one (DDL_LAZY_BYTES), with what they agree on and copy"},
      {" norms ", "an all-reduce that tells all ranks which chunks are the largest (DDL_SPARSE)"},
      {"messages", "that one rank sends, in all segments; so with bytes sent"},
      {"time alone", "of the stage by itself; stages of different segments overlap"},
      {"Open MPI's own", "an estimate by the same model; ddlrun --compare measures it"}};
  std::string text = "words\n";
  for (const auto& [word, meaning] : kWords)
    if (used.find(word) != std::string::npos) text += fmt::format("  {:<16}{}\n", trimmed(word), meaning);
  return text;
}

}  // namespace

std::vector<HostIndex> expected_hosts(const Options& options, const Allocation& allocation,
                                      const System& world, std::uint64_t cores) {
  bool here = allocation.source == AllocationSource::this_machine;
  std::vector<std::uint64_t> slots;
  for (const HostSlots& host : allocation.hosts)
    slots.push_back(host.slots ? host.slots : here ? std::max<std::uint64_t>(1, cores) : 1);
  if (std::uint64_t each = ranks_per_host(options)) slots.assign(slots.size(), each);
  std::uint64_t ranks = ranks_asked(options);
  if (ranks == 0) ranks = std::accumulate(slots.begin(), slots.end(), std::uint64_t{0});
  std::vector<HostIndex> hosts;
  bool by_node = mapped_by_node(options);
  // More ranks than slots go round again, as under --oversubscribe.
  for (std::vector<std::uint64_t> left; hosts.size() < ranks;) {
    if (std::all_of(left.begin(), left.end(), [](std::uint64_t slot) { return slot == 0; })) left = slots;
    for (std::size_t h = 0; h < left.size() && hosts.size() < ranks; ++h)
      for (std::uint64_t take = by_node ? std::min<std::uint64_t>(1, left[h]) : left[h];
           take > 0 && hosts.size() < ranks; --take, --left[h])
        hosts.push_back(static_cast<HostIndex>(h));
  }
  std::vector<int> fake = variables_of_ranks(options, world).fake_hosts;
  return here && !fake.empty() ? fake_hosts(fake, hosts.size()) : hosts;
}

Options with_ranks_of_hosts(Options options, const Allocation& allocation, const System& world,
                            std::uint64_t cores) {
  if ((!options.racks && !options.aisles) || options.accelerators || options.mode.size() > 1) return options;
  std::vector<HostIndex> hosts = expected_hosts(options, allocation, world, cores);
  std::map<HostIndex, std::uint64_t> ranks_on;
  for (HostIndex host : hosts) ++ranks_on[host];
  for (const auto& [host, ranks] : ranks_on)
    if (ranks != ranks_on.begin()->second || ranks_on.size() != allocation.hosts.size())
      throw UsageError(fmt::format("-racks and -aisles do not fit {} ranks on {} hosts", hosts.size(),
                                   allocation.hosts.size()),
                       "they are dimensions of a grid, which needs as many ranks on each host",
                       "start as many on each host, or leave -racks and -aisles out");
  if (!ranks_on.empty()) options.expected_per_host = ranks_on.begin()->second;
  return options;
}

void check_ddl_options(const Options& options, const Allocation& allocation, const System& world,
                       std::uint64_t cores) {
  ddl_options_of_ranks(options, allocation, world, expected_hosts(options, allocation, world, cores));
}

std::string explain(const Options& options, const Allocation& allocation, const System& world,
                    std::uint64_t cores, const std::vector<Nic>& nics) {
  std::vector<HostIndex> hosts = expected_hosts(options, allocation, world, cores);
  DdlOptions asked = ddl_options_of_ranks(options, allocation, world, hosts);
  Grid grid = grid_of(asked, hosts);
  Env env = variables_of_ranks(options, world);
  for (const auto& [name, value] : asked.variables) set_variable(env, name, value);
  const WireRule wire_here =
      wire_rule(gradient_settings(env), static_cast<Rank>(hosts.size()), grid.spans_hosts());
  std::vector<Nic> rails = rails_like_here(env, nics);
  PlanLimits limits = limits_of(env, rails);
  std::string extents;
  for (int d = 0; d < grid.dimensions(); ++d)
    extents += fmt::format("{}{} {}", d ? " x " : "", grid.fanout(d), grid.dimension(d).name);
  std::string text = fmt::format("ranks     {} from {}, as {}{}\n", hosts.size(), name_of(allocation.source),
                                 extents, grid.is_regular() ? "" : " at most (groups are unequal)");
  if (grid.ranks() == 1) return text + "one rank has nothing to reduce\n";
  if (!env.enable) return text + "DDL_ENABLE=0: everything is left to the original library\n";
  if (asked.mode == Mode::scatter)
    return text + "mode m: the original library's own reduce-scatter and all-gather\n";
  text += assumptions(grid, limits, rails);
  text += gradients_text(env, grid);
  text += fmt::format("\n{}\n", head_text());
  for (Bytes bytes : kSizes) {
    const WireFormat wire = wire_here.format_of(Kind::all_reduce, DType::float32, bytes);
    text += explain_size(asked.mode, grid, hosts, bytes, limits, wire) +
            gradient_lines(env, grid, bytes, limits, wire) + "\n";
  }
  return text + words_text(text);
}

}  // namespace ddl
