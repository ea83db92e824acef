// A double of gloo that keeps its names and nothing of how its options look in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gloo {

struct Group {
  std::string name;
  int ranks = 1;
};

struct AllreduceOptions {
  std::uint32_t tag = 7;
  bool in_place = true;
  double factor = 2;
  std::vector<float>* values = nullptr;
  Group* group = nullptr;
  std::string hint = "none";
};

struct BroadcastOptions {
  std::uint64_t words[2];  // shorter than gloo's
};

struct BarrierOptions {
  int* came;
};

/// Doubles the values: what a sum over two alike ranks would be.
void allreduce(const AllreduceOptions& options);
/// words[1] = words[0], by way of a pointer in each.
void broadcast(BroadcastOptions& options);
void barrier(BarrierOptions& options);

}  // namespace gloo
