#include "results_file.hpp"

#include <fmt/core.h>
#include <mpi.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace bench {

bool open_results(const Options& options, int rank, std::ofstream& file) {
  int opened = 1;
  if (rank == 0 && !options.json.empty() && options.json != "-") {
    file.open(options.json);
    opened = file.good() ? 1 : 0;
    if (opened == 0)
      fmt::print(stderr, "ddl-bench: error: cannot write '{}' (--json); name a file in an existing folder\n",
                 options.json);
  }
  MPI_Bcast(&opened, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return opened == 1;
}

bool write_results(const Options& options, const nlohmann::json& results, std::ofstream& file) {
  if (options.json.empty()) return true;
  const std::string text = results.dump(1) + "\n";
  const bool written = file.is_open() ? static_cast<bool>(file << text << std::flush)
                                      : std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (!written) fmt::print(stderr, "ddl-bench: error: cannot write '{}' (--json)\n", options.json);
  return written;
}

}  // namespace bench
