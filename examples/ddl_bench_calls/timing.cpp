#include "timing.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace calls {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<double> slowest(const std::vector<double>& rounds) {
  std::vector<double> all(rounds.size());
  MPI_Reduce(rounds.data(), all.data(), static_cast<int>(rounds.size()), MPI_DOUBLE, MPI_MAX, 0,
             MPI_COMM_WORLD);
  return all;
}

void leave_together() {
  MPI_Request all = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &all);
  for (int left = 0; !left;) {
    MPI_Test(&all, &left, MPI_STATUS_IGNORE);
    if (!left) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Loop loop_for(const Options& options, std::uint64_t bytes) {
  Loop loop{50, 30};
  if (bytes > 4 << 10) loop = {50, 10};
  if (bytes > 64 << 10) loop = {40, 1};
  if (bytes > 1 << 20) loop = {10, 1};
  if (options.rounds > 0) loop.batches = options.rounds;
  return loop;
}

}  // namespace calls
