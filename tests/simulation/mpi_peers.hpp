// What Open MPI and MVAPICH2 choose, as SimGrid's SMPI re-implements their decision tables and algorithms. A
// host is one SimGrid host here, so that they see which ranks share it: its GPUs talk at the full rate of a
// GPU's link, whoever else talks; its rails are one link. Both flatter them.
#pragma once

#include <string>

#include "cluster.hpp"

namespace ddl::simulation {

/// Seconds of one MPI_Allreduce; `selector` is SMPI's name of the library: "ompi", "mvapich2". Once per
/// process.
double simulate_mpi(const Cluster& cluster, Bytes bytes, const std::string& selector);

}  // namespace ddl::simulation
