#include "compute.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace bench {

Compute::Compute(Computing how) : how_(how) {
  if (how_ == Computing::sleep) return;
  constexpr std::uint64_t kRounds = 200'000;  // about a millisecond
  // The fastest of many: others that are on the processor do not count.
  for (int trial = 0; trial < 60; ++trial) {
    const double start = MPI_Wtime();
    work(kRounds);
    rounds_per_second_ = std::max(rounds_per_second_, kRounds / (MPI_Wtime() - start));
  }
}

void Compute::run(double seconds) {
  if (seconds <= 0) return;
  if (how_ == Computing::sleep)
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  else
    work(static_cast<std::uint64_t>(seconds * rounds_per_second_));
}

// Each round waits for the one before, so that their number alone decides how long it takes.
void Compute::work(std::uint64_t rounds) {
  double value = result_;
  for (std::uint64_t round = 0; round < rounds; ++round) value = value * 0.999999 + 1e-6;
  result_ = value;
}

}  // namespace bench
