// The training jobs of the papers: how much they reduce and how long they compute between two reductions.
// Every number is published or follows from published ones as the comment beside it says.
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
