#include "measure.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "collective.hpp"

namespace bench {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

void leave_together() {
  MPI_Request all = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &all);
  for (int left = 0; !left;) {
    MPI_Test(&all, &left, MPI_STATUS_IGNORE);
    if (!left) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Times times_of_slowest(const std::vector<double>& seconds) {
  const int measured = static_cast<int>(seconds.size());
  std::vector<double> slowest(seconds.size());
  // MPI_Reduce, so that the calls under test are the only ones of their kind.
  MPI_Reduce(seconds.data(), slowest.data(), measured, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  Times times;
  times.iters = measured;
  times.median_us = median(slowest) * 1e6;
  times.average_us = std::accumulate(slowest.begin(), slowest.end(), 0.0) / measured * 1e6;
  times.min_us = *std::min_element(slowest.begin(), slowest.end()) * 1e6;
  times.max_us = *std::max_element(slowest.begin(), slowest.end()) * 1e6;
  return times;
}

Result measure(const Options& options, const Pattern& pattern, std::uint64_t bytes) {
  Result result;
  result.count = bytes > 0 ? std::max<std::size_t>(1, bytes / element_bytes(options.dtype)) : 0;
  result.bytes = result.count * element_bytes(options.dtype);
  result.iters = iterations(options, bytes);
  const int warmup = warmups(options, bytes);
  Calls calls(options, pattern, result.count);
  std::vector<double> seconds;
  std::uint64_t wrong = 0;
  for (int call = 0; call < warmup + result.iters; ++call) {
    calls.prepare(call);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    calls.run();
    const double end = MPI_Wtime();
    if (call >= warmup) seconds.push_back(end - start);
    if (bytes >= 1 << 20) leave_together();
    wrong += calls.is_right(call) ? 0 : 1;
  }
  static_cast<Times&>(result) = times_of_slowest(seconds);
  MPI_Reduce(&wrong, &result.wrong_calls, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  result.verified =
      static_cast<std::uint64_t>(warmup + result.iters) * static_cast<std::uint64_t>(world_size());
  if (result.median_us > 0)
    result.bus_mb_s =
        bus_factor(options.op, world_size()) * static_cast<double>(result.bytes) / result.median_us;
  return result;
}

}  // namespace bench
