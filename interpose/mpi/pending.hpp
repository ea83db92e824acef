// Pending: a call under way behind a request of ours, and those that are over and wait to be used again.
//
// Thread safety: IdleCalls, all; a Pending belongs to who works for its call.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "interpose/mpi/call_buffers.hpp"
#include "interpose/mpi/persistent_request.hpp"
#include "interpose/mpi/requests.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {

/// A call under way behind a request.
struct Pending {
  CommState* comm = nullptr;               // of an engine's call
  CallBuffers buffers = {};                // likewise
  std::unique_ptr<PendingWork> work = {};  // else: asks for itself, with or without a request
  // Of an engine's call without a request.
  std::shared_ptr<PersistentRequest> start_of = {};
  MPI_Request request = MPI_REQUEST_NULL;
  int error = MPI_SUCCESS;
  ddl_started* started = nullptr;  // the engine's name for it; null: it asks for itself
  bool is_long = false;
  Layouts layouts = {};  // of an engine's call that is kept
  // It completes when it is done and its request is made, whichever comes last.
  std::atomic<int> steps{0};
};

/// Calls that are over, for the next ones: programs have dozens under way at once, more than malloc() has at
/// hand.
class IdleCalls {
 public:
  Pending* take() {
    const auto lock = lock_for_threads(mutex_);
    if (calls_.empty()) return new Pending;
    Pending* call = calls_.back().release();
    calls_.pop_back();
    return call;
  }
  void give_back(Pending* over) {
    std::destroy_at(over);
    std::unique_ptr<Pending> call(std::construct_at(over));
    const auto lock = lock_for_threads(mutex_);
    if (calls_.size() < kMost) calls_.push_back(std::move(call));
  }

 private:
  static constexpr std::size_t kMost = 256;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Pending>> calls_;
};
inline IdleCalls& idle_calls() {
  static auto& all = *new IdleCalls;  // for exit handlers
  return all;
}

}  // namespace ddl::mpi
