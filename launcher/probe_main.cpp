// ddl-probe: prints what this host looks like. JSON on standard output by default, since ddlrun reads it;
// nothing else is ever printed there. Missing facts are notes in the result; only bad input and a host that
// hwloc cannot describe at all end with an error (exit code 2).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/file.hpp"
#include "core/bootstrap/pmix_job_facts.hpp"
#include "core/topology/draw.hpp"
#include "core/topology/topology_json.hpp"
#include "hwloc_topo/discover.hpp"

namespace {

constexpr int kUsageExit = 2;

struct ProbeOptions {
  bool text = false;
  bool job = false;
  std::string svg_file;
};

void add_options(CLI::App& app, ProbeOptions& options) {
  app.set_version_flag("--version", DDL_VERSION);
  app.add_flag("--text", options.text, "draw the host for a terminal instead of printing JSON");
  app.add_option("--svg", options.svg_file, "draw the host as SVG into FILE instead of printing JSON")
      ->type_name("FILE");
  app.add_flag(
      "--job", options.job,
      "under mpirun: add what PMIx knows about the job; the JSON is then {\"node\": ..., \"job\": ...}");
  app.footer(
      "HWLOC_XMLFILE=FILE describes the machine in FILE (lstopo writes such files) instead of this one;\n"
      "HWLOC_SYNTHETIC=\"pack:2 numa:1 core:4 pu:1\" a made-up one.");
}

std::string json_text_of(const nlohmann::json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string text_of(const ddl::JobFacts& job) {
  std::string text;
  if (job.in_job) {
    text += fmt::format("job {} · rank {} of {} · hosts {}\n", job.job, job.rank, job.size,
                        fmt::join(job.hosts, " "));
    text += fmt::format("  ranks on this host: {}\n", fmt::join(job.local_peers, " "));
    if (!job.topology.empty()) text += fmt::format("  PMIx topology: {}\n", job.topology);
    for (const ddl::DeviceFacts& device : job.distances)
      text += fmt::format("  distance to {} ({}): {}-{}\n", device.name, device.type, device.min_distance,
                          device.max_distance);
  }
  for (const std::string& note : job.notes) text += fmt::format("  note: {}\n", note);
  return text;
}

// Where PMIx places the ranks of this host, and binds them.
void place_ranks(const ddl::JobFacts& job, ddl::Topology& topology) {
  for (ddl::Rank rank : job.local_peers) {
    ddl::RankPlace place{rank, 0, {}, -1};
    for (const ddl::RankFacts& about : job.ranks)
      if (about.rank == rank) place.pus = ddl::parse_pu_ranges(about.cpuset);
    topology.ranks.push_back(place);
  }
}

void write_picture(const std::string& file, const std::string& text) {
  if (std::error_code failed = ddl::write_file(file, text))
    throw ddl::UsageError(fmt::format("cannot write {}", file), failed.message(),
                          "choose a folder that exists and is yours");
}

void probe(const ProbeOptions& options) {
  ddl::Topology topology{{ddl::discover_node()}, {}};
  ddl::JobFacts job;
  if (options.job) job = ddl::read_job_facts();
  place_ranks(job, topology);
  if (!options.svg_file.empty()) write_picture(options.svg_file, ddl::draw_svg(topology));
  std::string text;
  if (options.text)
    text = ddl::draw_text(topology) + (options.job ? text_of(job) : std::string());
  else if (options.svg_file.empty())
    text = options.job ? json_text_of({{"node", ddl::json_of(topology.hosts[0])}, {"job", ddl::json_of(job)}})
                       : ddl::json_text(topology.hosts[0]);
  std::fputs(text.c_str(), stdout);  // in one piece: the output of several hosts may share a stream
  if (std::fflush(stdout) != 0) throw ddl::Error("cannot write to standard output");
}

}  // namespace

int main(int argc, char** argv) {
  // hwloc would print long complaints about odd firmware tables into the launcher's stream.
  setenv("HWLOC_HIDE_ERRORS", "2", 0);
  CLI::App app(
      "Describes the host it runs on: packages, NUMA nodes, cores, GPUs, NICs and the links between them.",
      "ddl-probe");
  ProbeOptions options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
    probe(options);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "ddl-probe: error: %s; see ddl-probe --help\n", error.what());
    return kUsageExit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddl-probe: error: %s\n", error.what());
    return kUsageExit;
  }
  return 0;
}
