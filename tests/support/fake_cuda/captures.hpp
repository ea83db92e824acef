// Captures of the test double: what streams do between the beginning and the end of one becomes a graph. A
// stream joins by waiting for an event that was recorded in the capture; at the end the first stream must
// have waited for all that was done, by way of events too. Thread safety: none; who calls holds the lock of
// all streams.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "core/device/cuda_driver.hpp"

namespace fake_cuda {

struct CapturedGraph {
  struct Node {
    std::set<std::size_t> after;
    std::function<void()> run;
  };
  std::vector<Node> nodes;

  /// An order in which every node comes behind those that it depends on, and nothing else is sure: it is
  /// another one in every second process.
  std::vector<std::size_t> order() const;
};

class Capture {
 public:
  using Ends = std::set<std::size_t>;  // nodes that nothing of a stream's follows yet

  Capture(ddl::cuda::Stream first, int mode);
  void add(ddl::cuda::Stream stream, std::function<void()> run);
  Ends ends(ddl::cuda::Stream stream) const;
  void join(ddl::cuda::Stream stream, const Ends& ends);
  bool has_waited_for_all() const;

  const ddl::cuda::Stream first;
  const int mode;
  const std::thread::id thread;
  const unsigned long long number;
  bool is_invalid = false, is_over = false;
  CapturedGraph graph;

 private:
  std::map<ddl::cuda::Stream, Ends> ends_;
};

}  // namespace fake_cuda
