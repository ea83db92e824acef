// ddl-bench: times and verifies MPI collectives over a range of message sizes. See --help.
#include <fmt/core.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "collective.hpp"
#include "job.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "pattern.hpp"
#include "replay.hpp"
#include "results_file.hpp"

namespace bench {
namespace {

// Before MPI_Init only the launcher's variables tell who is who; they are needed so that one rank alone
// complains.
bool is_first_of_job() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return std::string(rank) == "0";
  return true;
}

void print_head(const Options& options, const Job& job, std::FILE* out) {
  const std::string what = reduces(options.op)    ? options.reduce
                           : has_root(options.op) ? "root 0"
                                                  : "no reduction";
  fmt::print(out, "# {} {}{}, {}, {} ranks on {}\n", options.op, options.dtype,
             options.inplace ? " in place" : "", what, job.ranks, job.hosts);
  fmt::print(out, "# library {}, engine {}\n", job.library, job.engine ? "on" : "off");
  fmt::print(out, "{:>12} {:>12} {:>7} {:>12} {:>12} {:>12} {:>12} {:>10} {:>6}\n", "bytes", "count", "iters",
             "median us", "avg us", "min us", "max us", "bus MB/s", "wrong");
  std::fflush(out);
}

void print_row(const Result& row, std::FILE* out) {
  fmt::print(out, "{:>12} {:>12} {:>7} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f} {:>10.1f} {:>6}\n", row.bytes,
             row.count, row.iters, row.median_us, row.average_us, row.min_us, row.max_us, row.bus_mb_s,
             row.wrong_calls);
  std::fflush(out);
}

nlohmann::json to_json(const Options& options, const Job& job, const std::vector<Result>& rows) {
  nlohmann::json results = nlohmann::json::array();
  for (const Result& row : rows)
    results.push_back({{"bytes", row.bytes},
                       {"count", row.count},
                       {"iters", row.iters},
                       {"median_us", row.median_us},
                       {"avg_us", row.average_us},
                       {"min_us", row.min_us},
                       {"max_us", row.max_us},
                       {"bus_mb_s", row.bus_mb_s},
                       {"verified", row.verified},
                       {"wrong", row.wrong_calls}});
  return {{"program", "ddl-bench"},   {"op", options.op},           {"dtype", options.dtype},
          {"reduce", options.reduce}, {"inplace", options.inplace}, {"ranks", job.ranks},
          {"hosts", job.hosts},       {"library", job.library},     {"engine", job.engine},
          {"results", results}};
}

// Returns the number of wrong calls on every rank, one more where the results could not be written.
std::uint64_t run_all(const Options& options, int rank, std::ofstream& file) {
  const Job job = describe_job();
  const auto pattern = make_pattern(options.dtype, options.reduce, job.ranks, options.tolerance);
  std::FILE* out = options.json == "-" ? stderr : stdout;
  std::vector<Result> rows;
  std::uint64_t totals[2] = {0, 0};  // verified, wrong
  bool written = true;
  if (rank == 0) print_head(options, job, out);
  for (const std::uint64_t bytes : sizes(options)) {
    rows.push_back(measure(options, *pattern, bytes));
    if (rank == 0) print_row(rows.back(), out);
    totals[0] += rows.back().verified;
    totals[1] += rows.back().wrong_calls;
  }
  if (rank == 0) {
    written = write_results(options, to_json(options, job, rows), file);
    fmt::print(out, "check: {} sizes {} results {} wrong\n", rows.size(), totals[0], totals[1]);
    std::fflush(out);
  }
  if (!written) ++totals[1];
  MPI_Bcast(totals, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  return totals[1];
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  const bench::Parsed parsed = bench::parse(argc, argv);
  if (!parsed.run) {
    if (bench::is_first_of_job()) std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::ofstream file;
  int code = 2;
  if (!bench::open_results(parsed.options, rank, file))
    code = 2;
  else if (!parsed.options.replay.empty())
    code = bench::run_replay(parsed.options, rank, file);
  else
    code = bench::run_all(parsed.options, rank, file) == 0 ? 0 : 1;
  MPI_Finalize();
  return code;
}
