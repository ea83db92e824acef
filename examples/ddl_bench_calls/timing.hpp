// Loops that are timed, and what is made of their times. Times are in seconds unless a name says otherwise.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "options.hpp"
#include "reduction.hpp"
#include "report.hpp"

namespace calls {

double median(std::vector<double> values);

// For each round the time of the slowest rank, on rank 0. Collective. By MPI_Reduce, so that the calls under
// test are the only ones of their kind.
std::vector<double> slowest(const std::vector<double>& rounds);

// Waits asleep until all ranks have come: where ranks share cores, early ones in a barrier would slow down
// the late ones' calls.
void leave_together();

struct Loop {
  int batches = 1;
  int calls = 1;  // in a batch
  int warmups() const { return (batches + 1) / 2; }
};

// Many short calls or few long ones. The number depends on the size alone, so that two runs do the same work.
Loop loop_for(const Options& options, std::uint64_t bytes);

// Microseconds of one call: the median over the batches, as this rank sees it. The calls follow each other
// without barriers; `data` is made ready before each batch and checked after it.
template <typename Call>
double time_loop_us(const Loop& loop, Reduction& data, Report& report, Call call) {
  std::vector<double> times;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int batch = -loop.warmups(); batch < loop.batches; ++batch) {
    data.prepare();
    const double start = MPI_Wtime();
    for (int i = 0; i < loop.calls; ++i) call();
    const double end = MPI_Wtime();
    report.check(data.right());
    if (batch >= 0) times.push_back((end - start) / loop.calls);
  }
  return median(times) * 1e6;
}

}  // namespace calls
