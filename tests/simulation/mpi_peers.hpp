// What Open MPI and MVAPICH2 choose, as SimGrid's SMPI re-implements their decision tables and algorithms. A
// host is one SimGrid host here, so that they see which ranks share it: its GPUs talk at the full rate of a
// GPU's link, whoever else talks; its rails are one link. Both flatter them.
#pragma once

#include <string>

#include "cluster.hpp"
#include "core/plan/kind.hpp"

namespace ddl::simulation {

/// Seconds of one MPI_Allreduce, MPI_Bcast or MPI_Reduce (of rank 0), by kind; `selector` is SMPI's name of
/// the library: "ompi", "mvapich2". Once per process.
double simulate_mpi(const Cluster& cluster, Kind kind, Bytes bytes, const std::string& selector);

}  // namespace ddl::simulation
