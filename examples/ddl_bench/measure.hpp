// One size measured: the calls, their times, their verification. Collective over MPI_COMM_WORLD; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "options.hpp"
#include "pattern.hpp"

namespace bench {

/// Of the same thing done several times, how long it took on the rank that took longest.
struct Times {
  int iters = 0;
  double median_us = 0;
  double average_us = 0;
  double min_us = 0;
  double max_us = 0;
};

struct Result : Times {
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  double bus_mb_s = 0;            // 10^6 bytes per second over each link, 2 (p-1)/p N / t for an all-reduce
  std::uint64_t verified = 0;     // calls whose result was checked, warm-up included, over all ranks
  std::uint64_t wrong_calls = 0;  // of those, calls with at least one wrong element
};

int world_size();

// Nobody checks a large result while others are still in the call: where ranks share cores the two would
// compete, and the call look slow.
void leave_together();

// From what this rank measured; collective, valid on rank 0.
Times times_of_slowest(const std::vector<double>& seconds);

// The result is valid on rank 0.
Result measure(const Options& options, const Pattern& pattern, std::uint64_t bytes);

}  // namespace bench
