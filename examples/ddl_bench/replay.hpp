// --replay: the steps of a training job, computing and all-reduces in the order of the backward pass of a
// network.
#pragma once

#include <cstdint>
#include <fstream>

#include "options.hpp"

namespace bench {

/// Collective over MPI_COMM_WORLD. The exit code, the same on every rank; rank 0 prints.
int run_replay(const Options& options, int rank, std::ofstream& json);

}  // namespace bench
