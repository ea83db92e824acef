// The training jobs of the papers: how much they reduce and how long they compute between two reductions.
// Compute times follow from published times of training; assumed are the images per GPU and, for the sparse
// reduction, that 15 % of the gradients travel.
#pragma once

#include <string>
#include <vector>

#include "cluster.hpp"

namespace ddl::simulation {

struct Workload {
  std::string name;
  Cluster cluster;
  Bytes bytes;            // gradients of one iteration
  double compute;         // seconds of one iteration without communication
  std::string published;  // scaling efficiency, "-" where there is none
};

std::vector<Workload> workloads();

}  // namespace ddl::simulation
