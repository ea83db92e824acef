#include "measure.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

namespace bench {
namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// The buffers of one size and the call under test.
class Trial {
 public:
  Trial(const Options& options, const Pattern& pattern, std::size_t count)
      : options_(options),
        pattern_(pattern),
        count_(count),
        op_(mpi_op(options.reduce)),
        rank_(world_rank()) {
    const std::size_t bytes = count * element_bytes(options.dtype);
    result_.resize(bytes);
    if (!in_place()) given_.resize(bytes);
  }

  void prepare(int call) {
    // A broadcast of the root's data overwrites the others' own.
    pattern_.fill(in_place() ? result_.data() : given_.data(), count_, call, rank_);
  }

  void run() {
    const int count = static_cast<int>(count_);
    void* from = in_place() ? MPI_IN_PLACE : given_.data();
    if (is_broadcast()) {
      MPI_Bcast(result_.data(), count, pattern_.type(), 0, MPI_COMM_WORLD);
    } else if (is_copy()) {
      // What the memory gives when all ranks copy at once, and nothing else: a yardstick.
      std::memcpy(result_.data(), given_.data(), given_.size());
    } else if (options_.op == "iallreduce") {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Iallreduce(from, result_.data(), count, pattern_.type(), op_, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Allreduce(from, result_.data(), count, pattern_.type(), op_, MPI_COMM_WORLD);
    }
  }

  bool right(int call) const {
    if (is_copy()) return result_ == given_;
    if (is_broadcast()) return pattern_.changed(result_.data(), count_, call, 0) == 0;
    const bool given_intact = in_place() || pattern_.changed(given_.data(), count_, call, rank_) == 0;
    return given_intact && pattern_.wrong(result_.data(), count_, call) == 0;
  }

 private:
  bool is_copy() const { return options_.op == "copy"; }
  bool is_broadcast() const { return options_.op == "bcast"; }
  bool in_place() const { return !is_copy() && (options_.inplace || is_broadcast()); }

  const Options& options_;
  const Pattern& pattern_;
  std::size_t count_;
  MPI_Op op_;
  int rank_;
  std::vector<std::byte> given_;
  std::vector<std::byte> result_;
};

// Nobody checks a large result while others are still in the call: where ranks share cores the two would
// compete, and the call look slow.
void leave_together(std::uint64_t bytes) {
  if (bytes < 1 << 20) return;
  MPI_Request all = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &all);
  for (int left = 0; !left;) {
    MPI_Test(&all, &left, MPI_STATUS_IGNORE);
    if (!left) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double bus_factor(const Options& options, int ranks) {
  if (options.op == "bcast" || options.op == "copy") return 1;
  return 2.0 * (ranks - 1) / ranks;
}

}  // namespace

Result measure(const Options& options, const Pattern& pattern, std::uint64_t bytes) {
  Result result;
  result.count = std::max<std::size_t>(1, bytes / element_bytes(options.dtype));
  result.bytes = result.count * element_bytes(options.dtype);
  result.iters = iterations(options, bytes);
  const int warmup = warmups(options, bytes);
  Trial trial(options, pattern, result.count);
  std::vector<double> seconds, slowest(static_cast<std::size_t>(result.iters));
  std::uint64_t wrong = 0;
  for (int call = 0; call < warmup + result.iters; ++call) {
    trial.prepare(call);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    trial.run();
    const double end = MPI_Wtime();
    if (call >= warmup) seconds.push_back(end - start);
    leave_together(bytes);
    wrong += trial.right(call) ? 0 : 1;
  }
  // MPI_Reduce, so that the calls under test are the only ones of their kind.
  MPI_Reduce(seconds.data(), slowest.data(), result.iters, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&wrong, &result.wrong_calls, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  result.verified =
      static_cast<std::uint64_t>(warmup + result.iters) * static_cast<std::uint64_t>(world_size());
  result.median_us = median(slowest) * 1e6;
  result.average_us = std::accumulate(slowest.begin(), slowest.end(), 0.0) / result.iters * 1e6;
  result.min_us = *std::min_element(slowest.begin(), slowest.end()) * 1e6;
  result.max_us = *std::max_element(slowest.begin(), slowest.end()) * 1e6;
  if (result.median_us > 0)
    result.bus_mb_s =
        bus_factor(options, world_size()) * static_cast<double>(result.bytes) / result.median_us;
  return result;
}

}  // namespace bench
