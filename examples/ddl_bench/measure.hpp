// One size measured: the calls, their times, their verification. Collective over MPI_COMM_WORLD; one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "options.hpp"
#include "pattern.hpp"

namespace bench {

struct Result {
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  int iters = 0;
  double median_us = 0;
  double average_us = 0;
  double min_us = 0;
  double max_us = 0;
  double bus_mb_s = 0;            // 10^6 bytes per second over each link, 2 (p-1)/p N / t for an all-reduce
  std::uint64_t verified = 0;     // calls whose result was checked, warm-up included, over all ranks
  std::uint64_t wrong_calls = 0;  // of those, calls with at least one wrong element
};

// The result is valid on rank 0.
Result measure(const Options& options, const Pattern& pattern, std::uint64_t bytes);

}  // namespace bench
