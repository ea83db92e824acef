#include "timing.hpp"

#include <algorithm>

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

Loop loop_for(const Options& options, std::uint64_t bytes) {
  Loop loop{50, 10};
  if (bytes > 64 << 10) loop = {40, 1};
  if (bytes > 1 << 20) loop = {10, 1};
  if (options.rounds > 0) loop.batches = options.rounds;
  return loop;
}

}  // namespace calls
