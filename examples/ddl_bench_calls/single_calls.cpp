// One call after the other: blocking, nonblocking, of no elements, and the first ones of a process.
#include <numeric>

#include "items.hpp"
#include "timing.hpp"

namespace calls {
namespace {

constexpr int kFirstCalls = 20;

std::vector<std::uint64_t> sizes(const Options& options) {
  return sizes_or(options, {4, 4 << 10, 64 << 10, 1 << 20});
}

double time_blocking_us(const Loop& loop, Reduction& data, Report& report) {
  return time_loop_us(loop, data, report, [&] { data.call(MPI_COMM_WORLD); });
}

double time_nonblocking_us(const Loop& loop, Reduction& data, Report& report) {
  return time_loop_us(loop, data, report, [&] {
    MPI_Request request = data.start(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  });
}

}  // namespace

void measure_blocking(const Options& options, Report& report) {
  for (const std::uint64_t bytes : sizes(options)) {
    Reduction data(bytes);
    report.add(
        {"blocking", "allreduce", bytes, time_blocking_us(loop_for(options, bytes), data, report), "us"});
  }
}

void measure_nonblocking(const Options& options, Report& report) {
  for (const std::uint64_t bytes : sizes(options)) {
    Reduction data(bytes);
    const double us = time_nonblocking_us(loop_for(options, bytes), data, report);
    report.add({"nonblocking", "iallreduce, wait", bytes, us, "us"});
  }
}

void measure_zero(const Options& options, Report& report) {
  Reduction none(0);
  const Loop loop = loop_for(options, 0);
  report.add({"zero", "allreduce", 0, time_blocking_us(loop, none, report), "us"});
  report.add({"zero", "iallreduce, wait", 0, time_nonblocking_us(loop, none, report), "us"});
}

void measure_first(const Options& options, Report& report) {
  const std::uint64_t bytes = options.sizes.front();
  Reduction data(bytes);
  std::vector<double> times;
  data.prepare();
  MPI_Barrier(MPI_COMM_WORLD);
  for (int call = 0; call < kFirstCalls; ++call) {
    const double start = MPI_Wtime();
    data.call(MPI_COMM_WORLD);
    times.push_back(MPI_Wtime() - start);
  }
  report.check(data.right());
  const double others = std::accumulate(times.begin() + 1, times.end(), 0.0) / (kFirstCalls - 1);
  report.add({"first", "call 1", bytes, times.front() * 1e6, "us"});
  report.add({"first", "calls 2 to 20, mean", bytes, others * 1e6, "us"});
}

}  // namespace calls
