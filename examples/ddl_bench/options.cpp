#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <string>
#include <vector>

#include "collective.hpp"
#include "pattern.hpp"

namespace bench {
namespace {

void add_options(CLI::App& app, Options& options) {
  app.add_option("-m,--sizes", options.range, "MIN:MAX, or MAX alone, instead of --min and --max");
  app.add_option("-b,--min", options.min_bytes, "smallest message, bytes; 64k, 1m, 1g are powers of 1024")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("-e,--max", options.max_bytes,
                 "largest message; where blocks of several ranks are moved, of one block")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("-f,--factor", options.factor, "each size is the one before times this")
      ->check(CLI::Range(1.01, 1e6))
      ->capture_default_str();
  app.add_option("--op", options.op, "the collective; with a leading i its nonblocking form, and the wait")
      ->check(CLI::IsMember(collective_names()))
      ->capture_default_str();
  app.add_option("--dtype", options.dtype, "element type")
      ->check(CLI::IsMember(type_names()))
      ->capture_default_str();
  app.add_option("--reduce", options.reduce, "reduction")
      ->check(CLI::IsMember(reduction_names()))
      ->capture_default_str();
  app.add_option("-i,--iters", options.iters, "timed calls per size (default: falls with the size)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("-x,--warmup", options.warmup, "calls before the timed ones, verified as well")
      ->check(CLI::Range(0, 1000000));
  app.add_flag("--inplace", options.inplace, "reduce in place (MPI_IN_PLACE)");
  app.add_option("--tolerance", options.tolerance,
                 "results may be off by this part of the largest, where DDL_WIRE_TYPE rounds them")
      ->check(CLI::Range(0.0, 0.5))
      ->capture_default_str();
  app.add_option("--json", options.json, "rank 0 writes the results to this file; - is standard output");
}

void add_replay_options(CLI::App& app, Options& options) {
  auto* replay = app.add_option(
      "--replay", options.replay,
      "instead of sizes, training steps of a network: alexnet, bert-large, googlenet, resnet50, vgg16,\n"
      "or a FILE of lines NAME ELEMENTS MICROSECONDS in the order of the backward pass. Each tensor\n"
      "is reduced as soon as its computing is done; -i and -x count steps");
  app.add_flag("--blocking", options.blocking, "with MPI_Allreduce and not MPI_Iallreduce and MPI_Waitall")
      ->needs(replay);
  app.add_option("--compute-ms", options.compute_ms,
                 "milliseconds of computing in a step, all times in proportion")
      ->check(CLI::Range(0.0, 1e6))
      ->needs(replay);
  app.add_flag("--sleep", options.sleep, "sleep where computing is; otherwise the processor works as much")
      ->needs(replay);
}

// "4:1m", ":1m" or "1m" into --min and --max. Throws CLI::ParseError.
void take_range(Options& options) {
  if (options.range.empty()) return;
  auto bytes = [&](std::string text, std::uint64_t& value) {
    std::string wrong = CLI::AsSizeValue(false)(text);
    if (text.empty() || !wrong.empty() || text.find_first_not_of("0123456789") != std::string::npos)
      throw CLI::ValidationError("--sizes", "'" + options.range + "' is not MIN:MAX in bytes");
    value = std::stoull(text);
  };
  const std::size_t colon = options.range.find(':');
  if (colon != std::string::npos && colon > 0) bytes(options.range.substr(0, colon), options.min_bytes);
  bytes(options.range.substr(colon == std::string::npos ? 0 : colon + 1), options.max_bytes);
}

std::string contradiction(const Options& options) {
  if (options.min_bytes > options.max_bytes) return "--min is larger than --max (no size to measure)";
  if (sizes(options).empty()) return "no whole element of --dtype is as large as --min and --max say";
  if (options.max_bytes / element_bytes(options.dtype) > INT_MAX)
    return "--max has more elements than an MPI count can say (2147483647); use a wider --dtype";
  if (options.inplace && !can_be_in_place(options.op))
    return "--inplace is for allreduce and iallreduce alone";
  if (is_bitwise(options.reduce) && is_float(options.dtype))
    return "--reduce " + options.reduce + " is not defined for " + options.dtype + "; use an integer --dtype";
  return {};
}

std::string beside_replay(const CLI::App& app) {
  for (const char* other : {"--sizes", "--min", "--max", "--factor", "--op"})
    if (app.count("--replay") > 0 && app.count(other) > 0)
      return std::string(other) + " does not go with --replay (the list says what is reduced)";
  return {};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Parsed parse(int argc, char** argv) {
  Parsed parsed;
  CLI::App app{
      "ddl-bench measures MPI collectives: each timed call starts after a barrier and lasts as long as on "
      "the\n"
      "slowest rank; every result of every call is verified. Start it with mpirun or ddlrun."};
  add_options(app, parsed.options);
  add_replay_options(app, parsed.options);
  try {
    app.parse(argc, argv);
    take_range(parsed.options);
    std::string wrong = beside_replay(app);
    if (wrong.empty()) wrong = contradiction(parsed.options);
    if (!wrong.empty()) parsed = {parsed.options, 2, false, "ddl-bench: error: " + wrong + "\n"};
  } catch (const CLI::CallForHelp&) {
    parsed = {parsed.options, 0, false, app.help()};
  } catch (const CLI::ParseError& error) {
    parsed = {parsed.options, 2, false, "ddl-bench: error: " + first_line(error.what()) + "\n"};
  }
  return parsed;
}

std::vector<std::uint64_t> sizes(const Options& options) {
  if (!has_bytes(options.op)) return {0};
  std::vector<std::uint64_t> all;
  const std::uint64_t element = element_bytes(options.dtype);
  const std::uint64_t least = std::max<std::uint64_t>(1, options.min_bytes);
  for (double size = static_cast<double>((least + element - 1) / element * element);
       size <= static_cast<double>(options.max_bytes); size *= options.factor) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(size) / element * element;
    if (all.empty() || bytes > all.back()) all.push_back(bytes);
  }
  return all;
}

int iterations(const Options& options, std::uint64_t bytes) {
  if (options.iters > 0) return options.iters;
  if (bytes <= 64 << 10) return 200;
  if (bytes <= 1 << 20) return 50;
  return bytes <= 16 << 20 ? 20 : 8;
}

// Short calls vary and libraries try out ways to do them, so that there must be many.
int warmups(const Options& options, std::uint64_t bytes) {
  if (options.warmup >= 0) return options.warmup;
  return bytes <= 1 << 20 ? iterations(options, bytes) / 2 : std::max(2, iterations(options, bytes) / 10);
}

}  // namespace bench
