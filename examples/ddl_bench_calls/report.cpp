#include "report.hpp"

#include <fmt/core.h>
#include <mpi.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace calls {

void Report::check(bool right) {
  ++checked_;
  wrong_ += right ? 0 : 1;
}

void Report::gather() {
  const std::uint64_t own[2] = {checked_, wrong_};
  std::uint64_t all[2] = {0, 0};
  MPI_Reduce(own, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Bcast(all, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  checked_ = all[0];
  wrong_ = all[1];
}

void Report::print(int ranks) const {
  fmt::print("# float32 sum, {} ranks\n{:<16} {:<34} {:>10} {:>12}\n", ranks, "item", "what", "bytes", "");
  for (const Row& row : rows_)
    fmt::print("{:<16} {:<34} {:>10} {:>12.2f} {}\n", row.item, row.what, row.bytes, row.value, row.unit);
  fmt::print("check: {} results {} wrong\n", checked_, wrong_);
  std::fflush(stdout);
}

std::string Report::json(int ranks) const {
  nlohmann::json results = nlohmann::json::array();
  for (const Row& row : rows_)
    results.push_back({{"item", row.item},
                       {"what", row.what},
                       {"bytes", row.bytes},
                       {"value", row.value},
                       {"unit", row.unit}});
  const nlohmann::json all{{"program", "ddl-bench-calls"},
                           {"ranks", ranks},
                           {"checked", checked_},
                           {"wrong", wrong_},
                           {"results", results}};
  return all.dump(1) + "\n";
}

}  // namespace calls
