// The threads that do the jobs of StagedCalls: the chunks of a call in turn, the first and all notes by the
// first of them; each does its own in the order in which they were given. Thread safety: give(); the rest by
// who owns it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/types.hpp"
#include "core/device/staged_jobs.hpp"

namespace ddl {

class StagedWorkers {
 public:
  struct Duties {
    std::function<void(const StagedJob& job, std::uint32_t worker)> job;
    // What a worker looks after when it has had work, and has nothing better to do, as long as one returns
    // true.
    std::function<bool(std::uint32_t worker)> meanwhile;
    Nanoseconds patience = 0;         // of stop(), once `failed`
    const std::atomic<bool>& failed;  // must outlive this
  };
  explicit StagedWorkers(Duties duties) : duties_(std::move(duties)) {}
  ~StagedWorkers() { stop(); }

  /// Until there are so many. Before the first job.
  void start(std::uint32_t count);
  std::uint32_t size() const { return static_cast<std::uint32_t>(workers_.size()); }
  /// To all, where each does a part of it.
  void give(StagedJob job);
  /// Waits until all is done that was given. May be called again.
  void stop();

 private:
  struct Worker {
    StagedJobs jobs;
    std::condition_variable changed;
    std::atomic<std::uint64_t> given{0};  // jobs; to be seen without the lock
    std::uint64_t taken = 0;
    Nanoseconds worked = 0;  // when it had its last job
    bool looks = false;      // has had work, so that there may be something to look after
    std::thread thread;
  };
  static void give_to(Worker& worker, StagedJob job);
  void work_off(std::uint32_t number);
  void await_job(std::uint32_t number, std::unique_lock<std::mutex>& lock);

  const Duties duties_;
  std::mutex mutex_;  // of what follows
  std::deque<Worker> workers_;
  bool closing_ = false;
};

}  // namespace ddl
