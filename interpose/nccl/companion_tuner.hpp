// CompanionTuner: which way of a communicator's is the fastest, measured on the program's own calls. A try is
// clocked by host functions on the caller's stream; a thread waits until the last is over, agrees on the
// times with the other ranks, and then on the call from which on the decision holds. Meanwhile the program
// goes on; it is held only when it makes many calls within the milliseconds of the second agreement.
//
// Where a rank cannot be heard any more nothing is decided: all calls go the first way. All ranks
// hear of that alike, unless one's connection breaks under the very last answer.
//
// Thread safety: next() by one thread at a time, end() by any. Ownership: the seat and the thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/stream_api.h"
#include "core/tune/stream_tuner.hpp"
#include "interpose/nccl/call.hpp"

namespace ddl::nccl {

struct LeaveMeeting {
  void operator()(ddl_setup* meeting) const;
};
using MeetingSeat = std::unique_ptr<ddl_setup, LeaveMeeting>;

/// When a try began and ended on its stream; 0: not yet.
struct Clocked {
  std::atomic<Nanoseconds> began{0}, ended{0};
};

class CompanionTuner {
 public:
  /// Throws std::system_error where no thread can be had.
  CompanionTuner();
  ~CompanionTuner();
  CompanionTuner(const CompanionTuner&) = delete;
  CompanionTuner& operator=(const CompanionTuner&) = delete;

  /// Before the first call.
  void sit(MeetingSeat seat, int ranks, std::size_t ways);
  /// No more calls: one that is held is not held any more, and nothing may be done for it.
  void end();
  bool is_ended() const { return closing_; }

  struct Way {
    std::size_t index = 0;
    bool settled = false;
    std::shared_ptr<Clocked> clock = {};  // a try: to be clocked, once all ranks have met
  };
  /// Which way the next all-reduce that has plans is to go.
  Way next(const Call& call, Bytes bytes);

 private:
  using Times = StreamTuner::Times;
  using Tries = std::vector<std::shared_ptr<Clocked>>;
  struct Job {
    Bytes size_class;
    Tries tries;
  };
  void work_off();
  bool agree_on(const Job& job);
  bool await(const Tries& tries);
  bool maximum_of_all(Times& mine);  // of as many as there are

  MeetingSeat seat_;  // this and the next the worker's, once there is a job
  std::size_t ranks_ = 0;
  std::atomic<bool> closing_{false};

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  StreamTuner tuner_{1};
  std::map<Bytes, Tries> tries_;
  std::deque<Job> jobs_;
  std::uint64_t held_at_;  // no calls behind that one
  std::thread worker_;
};

}  // namespace ddl::nccl
