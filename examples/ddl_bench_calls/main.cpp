// ddl-bench-calls: times what surrounds the blocking all-reduce. See --help.
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "items.hpp"
#include "options.hpp"
#include "report.hpp"

namespace calls {
namespace {

bool chosen(const Options& options, const std::string& name) {
  return std::find(options.only.begin(), options.only.end(), name) != options.only.end();
}

// Opened before the measurement: a typing error should not cost the user the whole run.
bool open_json(const Options& options, int rank, std::ofstream& file) {
  int opened = 1;
  if (rank == 0 && !options.json.empty()) {
    file.open(options.json);
    opened = file.good() ? 1 : 0;
    if (opened == 0) fmt::print(stderr, "ddl-bench-calls: error: cannot write '{}' (--json)\n", options.json);
  }
  MPI_Bcast(&opened, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return opened == 1;
}

int run(const Options& options, int rank) {
  int ranks = 1;
  std::ofstream file;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (!open_json(options, rank, file)) return 2;
  Report report;
  for (const Item& item : items())
    if (chosen(options, item.name)) item.measure(options, report);
  report.gather();
  if (rank == 0) {
    report.print(ranks);
    if (file.is_open()) file << report.json(ranks);
  }
  return report.wrong() == 0 ? 0 : 1;
}

// Threads are asked for where they are measured: a library may be slower with them.
int thread_level(const Options& options) {
  return chosen(options, "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
}

}  // namespace
}  // namespace calls

int main(int argc, char** argv) {
  const calls::Parsed parsed = calls::parse(argc, argv);
  int provided = MPI_THREAD_SINGLE, rank = 0, code = parsed.exit_code;
  MPI_Init_thread(&argc, &argv, calls::thread_level(parsed.options), &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (parsed.run) {
    code = calls::run(parsed.options, rank);
  } else if (rank == 0) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  }
  MPI_Finalize();
  return code;
}
