#include "launcher/topology_view.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "core/base/env.hpp"
#include "core/base/file.hpp"
#include "core/topology/draw.hpp"
#include "core/topology/topology_json.hpp"
#include "launcher/messages.hpp"
#include "launcher/reachability.hpp"
#include "launcher/run_command.hpp"
#include "launcher/supervise.hpp"

namespace ddl {
namespace {

constexpr std::size_t kHostsAtOnce = 8;

void require_probe(const Installation& installation) {
  if (access(installation.ddl_probe().c_str(), X_OK) != 0)
    throw LaunchError(fmt::format("{} is missing", installation.ddl_probe()), "it describes the machines",
                      "install ddlrun again");
}

NodeTopology probe(const Strings& command, const std::string& host) {
  CommandResult result = run_command(command, kProbeLimit);
  if (auto node = find_node_topology(result.output)) return *node;
  std::string why = result.timed_out ? "no answer in time" : last_line(result.errors);
  throw LaunchError(fmt::format("host {} cannot be described", host),
                    why.empty() ? "ddl-probe printed nothing" : why, "run ddl-probe there");
}

NodeTopology probe_remote(const JobInputs& in, const std::string& host) {
  return probe(helper_job(in, host, {in.installation.ddl_probe()}).command, host);
}

void write_picture(const std::string& file, const std::string& text) {
  if (std::error_code failed = write_file(file, text))
    throw UsageError(fmt::format("cannot write {}", file), failed.message(), "choose another place");
  print_note("topology written to " + file);
}

}  // namespace

std::optional<NodeTopology> find_node_topology(const std::string& output) {
  std::size_t open = output.find("{\n"), close = output.rfind('}');
  if (open == std::string::npos) open = output.find('{');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  try {
    return parse_node_topology(output.substr(open, close - open + 1));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<NodeTopology> probe_this_machine(const Installation& installation, std::chrono::seconds limit) {
  if (access(installation.ddl_probe().c_str(), X_OK) != 0) return std::nullopt;
  return find_node_topology(run_command({installation.ddl_probe()}, limit).output);
}

Topology probe_hosts(const JobInputs& in) {
  require_probe(in.installation);
  const HostList& hosts = in.allocation.hosts;
  Topology topology;
  if (in.allocation.source == AllocationSource::this_machine) {
    topology.hosts.push_back(probe({in.installation.ddl_probe()}, in.world.host));
    return topology;
  }
  for (const auto& [name, value] : helper_job(in, "", {}).environment) setenv(name.c_str(), value.c_str(), 1);
  topology.hosts.resize(hosts.size());
  std::vector<std::string> errors(hosts.size());
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i; (i = next++) < hosts.size();) try {
        topology.hosts[i] = probe_remote(in, hosts[i].host);
      } catch (const std::exception& error) {
        errors[i] = error.what();
      }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(kHostsAtOnce, hosts.size()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors)
    if (!error.empty()) throw LaunchError(error);
  return topology;
}

std::string drawing(const Topology& topology, const System& world, Picture picture) {
  std::vector<std::string> rails;
  if (std::string wanted = world.variable("DDL_RAILS"); !wanted.empty()) rails = split(wanted, ',');
  std::vector<RingDrawing> rings = possible_rings(topology, rails);
  return picture == Picture::svg ? draw_svg(topology, rings) : draw_text(topology, rings);
}

void show_topology(const JobInputs& in) {
  Topology topology = probe_hosts(in);
  const std::string& file = in.options.topology_file;
  if (file.empty()) {
    std::fputs(drawing(topology, in.world, Picture::text).c_str(), stdout);
    std::fflush(stdout);
    return;
  }
  bool svg = file.size() > 4 && file.compare(file.size() - 4, 4, ".svg") == 0;
  write_picture(absolute_path(file, in.world.directory),
                svg ? drawing(topology, in.world, Picture::svg) : json_text(topology));
}

std::string describe_job(const JobInputs& in, const JobSpec& job) {
  std::string text = fmt::format("mpirun        Open MPI {} ({})\n", in.mpirun.version, in.mpirun.command);
  text +=
      fmt::format("hosts         {} from {}\n", in.allocation.hosts.size(), name_of(in.allocation.source));
  for (const HostSlots& entry : in.allocation.hosts)
    text += fmt::format("  {:<12}{}\n", entry.host,
                        entry.slots ? fmt::format("{} slots", entry.slots) : "slots as mpirun counts them");
  if (in.options.accelerators)
    text +=
        fmt::format("accelerators  {} on each host, {}\n", *in.options.accelerators,
                    in.options.ranks_per_host ? "with a rank for each" : "but other options count the ranks");
  text += fmt::format("binding       {}\n", user_chose_binding(in.options, in.world)
                                                ? "as you chose"
                                                : "each rank to its share of the cores of its host");
  text += fmt::format(
      "shim          {}{}\n", in.installation.shim(),
      in.world.file(in.installation.shim()) ? "" : " (missing: the programs would run without the engine)");
  for (const auto& [name, value] : job.environment)
    text += fmt::format("environment   {}={}\n", name, shell_quote(value));
  return text;
}

}  // namespace ddl
