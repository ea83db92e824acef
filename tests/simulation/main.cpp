// ddl-simulate: collectives on clusters nobody has at hand, in virtual time: our plans, the peers' algorithms
// and the bandwidth limit side by side. docs/reproduction.md says what is assumed. See --help.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/base/error.hpp"
#include "methods.hpp"
#include "papers.hpp"
#include "step_table.hpp"
#include "variants.hpp"

namespace ddl::simulation {
namespace {

struct Options {
  std::vector<std::string> clusters{"64x4", "48x4", "64x8", "8x8"};
  std::vector<Bytes> sizes{4096, 1 << 20, 102'400'000, 244'000'000};
  Bytes staging = 16 << 20;
  Rank hosts = 0, gpus = 0;
  Bytes window = 128 << 10;
  std::string between;
  std::vector<Method> methods;
  Kind kind = Kind::all_reduce;
  StepOptions step;
  bool papers = false, candidates = false, lanes = false, pairs = false;
};

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}

std::string size_text(Bytes bytes) {
  if (bytes >= 10'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  return bytes % (1 << 20) == 0 ? fmt::format("{} MiB", bytes >> 20)
                                : fmt::format("{:.3g} KiB", static_cast<double>(bytes) / 1024);
}

std::map<std::string, Method> method_names() {
  return {{"ours", Method::ours},
          {"flat-ring", Method::flat_ring},
          {"double-tree", Method::double_tree},
          {"open-mpi", Method::open_mpi},
          {"mvapich2", Method::mvapich2}};
}

std::vector<Method> methods_of(const Options& options) {
  if (!options.methods.empty()) return options.methods;
  if (options.kind != Kind::all_reduce) return {Method::ours, Method::open_mpi, Method::mvapich2};
  return {std::begin(kMethods), std::end(kMethods)};
}

void print_size(const Cluster& cluster, Bytes bytes, const Options& options) {
  std::string row = fmt::format("{:>10}", size_text(bytes)), plan;
  double ours = NAN, best = INFINITY, limit = bandwidth_limit(cluster, bytes, options.kind);
  for (Method method : methods_of(options)) {
    std::optional<Outcome> outcome =
        simulate(cluster, method, bytes, options.staging, options.between, options.kind);
    row += fmt::format(" {:>12}", outcome ? seconds_text(outcome->seconds) : "failed");
    if (!outcome) continue;
    if (method == Method::ours) {
      ours = outcome->seconds;
      plan = fmt::format("{}, {} messages, busiest link {}", outcome->plan, outcome->messages,
                         seconds_text(outcome->busiest_link_seconds));
    } else {
      best = std::min(best, outcome->seconds);
    }
  }
  fmt::print("{} {:>12} {:>10.2f} {:>10.2f}   {}\n", row, seconds_text(limit), ours / limit, best / ours,
             plan);
  std::fflush(stdout);
}

void print_cluster(const Cluster& cluster, const Options& options) {
  fmt::print(
      "\n{} on {} hosts x {} GPUs: {:g} GB/s per GPU link, {} x {:g} GB/s out, {:g} / {:g} us, {:g} us per "
      "message\n",
      name_of(options.kind), cluster.hosts, cluster.gpus, cluster.gpu_rate / 1e9, cluster.rails,
      cluster.rail_rate / 1e9, cluster.local_latency * 1e6, cluster.wire_latency * 1e6,
      cluster.message_cost * 1e6);
  fmt::print("{:>10}", "size");
  for (Method method : methods_of(options)) fmt::print(" {:>12}", name_of(method));
  fmt::print(" {:>12} {:>10} {:>10}   {}\n", "limit", "ours/limit", "best/ours", "our plan");
  for (Bytes bytes : options.sizes) print_size(cluster, bytes, options);
}

// What the cost model says of each choice, and what the replay makes of it.
void print_candidates(const Cluster& cluster, const Options& options) {
  fmt::print("\n{} hosts x {} GPUs, the choices\n{:>10} {:>12} {:>12}\n", cluster.hosts, cluster.gpus, "size",
             "predicted", "simulated");
  for (Bytes bytes : options.sizes)
    for (const Candidate& candidate : our_candidates(cluster, bytes, options.staging)) {
      std::vector<Plan> plans = our_plans(cluster, candidate.choice);
      std::optional<Outcome> outcome = simulate(cluster, plans, bytes);
      fmt::print("{:>10} {:>12} {:>12}   {}, segment {}\n", size_text(bytes),
                 seconds_text(candidate.predicted.seconds),
                 outcome ? seconds_text(outcome->seconds) : "failed", plans[0].name,
                 candidate.choice.segment);
      std::fflush(stdout);
    }
}

// What other lanes than the chosen ones would make of it.
void print_lanes(const Cluster& cluster, const Options& options) {
  fmt::print("\n{} hosts x {} GPUs, the lanes\n{:>10} {:>16} {:>12}\n", cluster.hosts, cluster.gpus, "size",
             "lanes", "simulated");
  for (Bytes bytes : options.sizes)
    for (const Candidate& candidate : our_candidates(cluster, bytes, options.staging))
      for (const Variant& variant : lane_variants(grid_of(cluster), candidate.choice)) {
        std::vector<Plan> plans = our_plans(cluster, variant.choice);
        std::optional<Outcome> outcome = simulate(cluster, plans, bytes);
        fmt::print("{:>10} {:>16} {:>12}   {}\n", size_text(bytes), variant.name,
                   outcome ? seconds_text(outcome->seconds) : "failed", plans[0].name);
        std::fflush(stdout);
      }
}

void print_papers(const std::vector<Cluster>& clusters, const Options& options) {
  fmt::print(
      "\nScaling efficiency: compute / (compute + all-reduce), and compute / max of both when they overlap "
      "fully\n");
  fmt::print("{:<44} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10}\n", "work", "compute", "method", "comm",
             "serial", "overlap", "published");
  for (const Workload& work : workloads()) {
    auto same = std::ranges::find(clusters, work.cluster.name, &Cluster::name);
    if (same == clusters.end()) continue;
    for (Method method : kMethods) {
      std::optional<Outcome> outcome = simulate(*same, method, work.bytes, options.staging, options.between);
      double comm = outcome ? outcome->seconds : NAN;
      fmt::print("{:<44} {:>10} {:>12} {:>10} {:>9.1f}% {:>9.1f}% {:>10}\n", work.name,
                 seconds_text(work.compute), name_of(method), seconds_text(comm),
                 100 * work.compute / (work.compute + comm),
                 100 * work.compute / std::max(work.compute, comm), work.published);
      std::fflush(stdout);
    }
  }
}

void add_step_options(CLI::App& app, StepOptions& step) {
  auto* model = app.add_option(
      "--step", step.model,
      "print a training step of a network instead: alexnet, resnet50, ... or a FILE, as ddl-bench "
      "--replay takes it");
  app.add_option("--compute-ms", step.compute_ms,
                 "milliseconds of computing in a step (default: as the list says)")
      ->check(CLI::Range(0.0, 1e6))
      ->needs(model);
  app.add_option("--gradient-bytes", step.rule.element,
                 "of a gradient in memory: 4, or 2 where the program has halves")
      ->check(CLI::IsMember({2, 4}))
      ->needs(model);
  const std::map<std::string, WireType> types{{"exact", WireType::exact},
                                              {"bfloat16", WireType::bfloat16},
                                              {"float16", WireType::float16},
                                              {"int8", WireType::int8}};
  app.add_option("--wire-type", step.rule.wire.type,
                 "what float32 travels as between hosts, as DDL_WIRE_TYPE")
      ->transform(CLI::CheckedTransformer(types))
      ->needs(model);
  app.add_option("--lazy", step.lazy, "as DDL_LAZY_BYTES: bytes of small gradients that travel together")
      ->transform(CLI::AsSizeValue(false))
      ->needs(model);
  app.add_flag("--whole", step.whole, "all gradients are one all-reduce at the end")->needs(model);
  app.add_option("--share", step.rule.sparse.share,
                 "as DDL_SPARSE: of the chunks of large gradients that is sent; 1: all, without their norms")
      ->check(CLI::Range(0.001, 1.0))
      ->needs(model);
  app.add_option("--chunk", step.rule.chunk, "elements of a chunk")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str()
      ->needs(model);
  app.add_flag("--predicted", step.predicted, "by the cost model alone, which takes no time")->needs(model);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{
      "ddl-simulate prints what a collective takes on modelled clusters: ours, the "
      "peers', the limit."};
  app.add_option("--cluster", options.clusters, "hosts x GPUs: 64x4, 48x4, 64x8 or 8x8")
      ->capture_default_str();
  app.add_option("--size", options.sizes, "bytes; 64k, 1m are powers of 1024")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  const std::map<std::string, Kind> kinds{{"all-reduce", Kind::all_reduce}, {"broadcast", Kind::broadcast},
                                          {"reduce", Kind::reduce},         {"all-gather", Kind::all_gather},
                                          {"gather", Kind::gather},         {"scatter", Kind::scatter},
                                          {"all-to-all", Kind::all_to_all}};
  app.add_option("--kind", options.kind,
                 "which collective; a size is that of a block. Without --candidates, --lanes, --papers")
      ->transform(CLI::CheckedTransformer(kinds));
  app.add_option("--staging", options.staging, "staging memory per rank, as DDL_STAGING_BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--hosts", options.hosts, "so many hosts instead of the cluster's own")
      ->check(CLI::Range(2, 4096));
  app.add_option("--gpus", options.gpus, "so many GPUs of each host instead of the cluster's own")
      ->check(CLI::Range(1, 64));
  app.add_option("--method", options.methods, "only these: ours, flat-ring, double-tree, open-mpi, mvapich2")
      ->transform(CLI::CheckedTransformer(method_names()));
  app.add_option("--window", options.window, "bytes under way on a connection before the next message waits")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--between", options.between,
                 "ours: not the first choice but the first that does this between hosts: ring, halving, ...");
  app.add_flag("--candidates", options.candidates, "print all our choices, predicted and simulated, instead");
  app.add_flag("--lanes", options.lanes,
               "print what rings in both directions and lanes that reduce between hosts first would take, "
               "instead");
  app.add_flag("--pairs", options.pairs, "take the pairs of GPUs of a 64x4 or 48x4 host as a dimension");
  app.add_flag("--papers", options.papers,
               "print the scaling efficiencies of the papers whose clusters these are, instead");
  add_step_options(app, options.step);
  CLI11_PARSE(app, argc, argv);
  std::vector<Cluster> clusters;
  for (const std::string& name : options.clusters) {
    clusters.push_back(find_cluster(name));
    clusters.back().connection_window = static_cast<double>(options.window);
    if (options.hosts > 0) clusters.back() = with_hosts(clusters.back(), options.hosts);
    if (options.gpus > 0) clusters.back() = with_gpus(clusters.back(), options.gpus);
    clusters.back().pair_dimension = options.pairs && clusters.back().interior == Interior::paired;
  }
  for (const Cluster& cluster : clusters) {
    if (options.candidates) print_candidates(cluster, options);
    if (options.lanes) print_lanes(cluster, options);
    const bool has_step = !options.step.model.empty();
    if (has_step) print_step(cluster, options.step, options.staging, options.between);
    if (!options.candidates && !options.lanes && !options.papers && !has_step)
      print_cluster(cluster, options);
  }
  if (options.papers) print_papers(clusters, options);
  return 0;
}

}  // namespace
}  // namespace ddl::simulation

int main(int argc, char** argv) {
  try {
    return ddl::simulation::run(argc, argv);
  } catch (const ddl::UsageError& error) {
    fmt::print(stderr, "ddl-simulate: error: {}\n", error.what());
    return 2;
  }
}
