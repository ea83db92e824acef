// Collective calls that are captured into a CUDA graph and done by the host whenever the graph is launched. A
// call is cut into chunks, and for each the graph copies the input into pinned memory, has a host function do
// the work, which waits for the other ranks, and copies the result back:
//
//   D2H 0 | work on 0 | H2D 0 | D2H 1 | work on 1 | H2D 1 | ...
//
// Nothing overlaps, and CUDA's one thread for host functions waits as long as the work does: so each rank
// needs a process of its own, and graphs that hold calls must run one after the other, in one order on all
// ranks. Within a capture all calls of the process are chained, in the order in which they were made,
// whatever their streams and communicators.
//
// The rules: as for StagedCalls; one object per communicator. Each captured call has up to 8 MiB of pinned
// memory, for good: nobody says when a graph is gone, and launches after this is destroyed still copy there,
// though nothing else is done. Thread safety: all but construction and destruction.
#pragma once

#include <memory>
#include <string>

#include "core/device/staged_call.hpp"

namespace ddl {

class CapturedCalls {
 public:
  /// `driver` must outlive this, and know capture_info.
  CapturedCalls(const cuda::Driver& driver, cuda::Context context);
  /// Waits for calls that have begun.
  ~CapturedCalls();
  CapturedCalls(const CapturedCalls&) = delete;
  CapturedCalls& operator=(const CapturedCalls&) = delete;

  /// Puts one call, of blocks that are not made of pieces, into what `stream` captures. kEnqueued or kFailed;
  /// then see failure(), and what was captured is of no use.
  Submitted capture(const StagedBuffers& buffers, cuda::Stream stream, StagedWork work);
  /// What CUDA refused the last time; "" when nothing.
  std::string failure() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // host functions in graphs that outlive this have it too
};

}  // namespace ddl
