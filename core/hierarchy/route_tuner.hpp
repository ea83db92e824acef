// RouteTuner: which route of a hierarchical communicator's is the fastest, measured on the program's own
// calls. A trial is clocked by host functions on the caller's stream; a thread waits until the last is over,
// agrees on the times with the other ranks, and then on the call from which on the decision holds. Meanwhile
// the program goes on; it is held only when it makes many calls within the milliseconds of the second
// agreement.
//
// Where a rank cannot be heard any more nothing is decided: all calls go the first route. All ranks hear of
// that alike, unless one's connection breaks under the very last answer.
//
// Thread safety: next() by one thread at a time, end() by any. Ownership: the rounds and the thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/bootstrap/exchange.hpp"
#include "core/device/cuda_driver.hpp"
#include "core/tune/stream_tuner.hpp"

namespace ddl {

/// One all-reduce of device memory; type and operation are the library's.
struct HierarchyCall {
  const void* in = nullptr;
  void* out = nullptr;
  Elements count = 0;
  Bytes element_bytes = 1;
  int type = 0, op = 0;
  cuda::Stream stream = nullptr;
};

/// When a trial began and ended on its stream; 0: not yet.
struct Clocked {
  std::atomic<Nanoseconds> began{0}, ended{0};
};

class RouteTuner {
 public:
  /// Throws std::system_error where no thread can be had.
  RouteTuner();
  ~RouteTuner();
  RouteTuner(const RouteTuner&) = delete;
  RouteTuner& operator=(const RouteTuner&) = delete;

  /// Before the first call. `verbose`: it says when it can measure no more.
  void begin(std::unique_ptr<Exchange> rounds, std::size_t routes, bool verbose);
  /// No more calls: one that is held is not held any more, and nothing may be done for it.
  void end();
  bool is_ended() const { return closing_; }

  struct Choice {
    std::size_t index = 0;
    bool settled = false;
    std::shared_ptr<Clocked> clock = {};  // a trial: to be clocked, once all ranks have met
  };
  /// Which route the next all-reduce that has plans is to go.
  Choice next(const HierarchyCall& call);

 private:
  using Times = StreamTuner::Times;
  using Trials = std::vector<std::shared_ptr<Clocked>>;
  struct Job {
    Bytes size_class;
    Trials trials;
  };
  void work_off();
  bool agree_on(const Job& job);
  bool await(const Trials& trials);
  bool maximum_of_all(Times& mine);  // of as many as there are

  std::unique_ptr<Exchange> rounds_;  // this and the next the worker's, once there is a job
  bool verbose_ = false;
  std::atomic<bool> closing_{false};

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  StreamTuner tuner_{1};
  std::map<Bytes, Trials> trials_;
  std::deque<Job> jobs_;
  std::uint64_t held_at_;  // no calls behind that one
  std::thread worker_;
};

}  // namespace ddl
