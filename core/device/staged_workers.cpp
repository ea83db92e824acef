#include "core/device/staged_workers.hpp"

#include <sched.h>

#include <chrono>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/signals.hpp"

namespace ddl {
namespace {

// A worker waits awake for so long after a job: waking it takes its caller longer than all else that a call
// does.
constexpr Nanoseconds kAwake = 50'000;

// How soon a worker looks again after what is under way elsewhere: nobody waits for that.
constexpr auto kMeanwhileEvery = std::chrono::microseconds(500);

}  // namespace

void StagedWorkers::start(std::uint32_t count) {
  std::lock_guard lock(mutex_);
  while (workers_.size() < count) {
    const auto number = static_cast<std::uint32_t>(workers_.size());
    Worker& worker = workers_.emplace_back();
    SignalsBlocked blocked;
    try {
      worker.thread = std::thread([this, number] { work_off(number); });
    } catch (...) {
      workers_.pop_back();
      throw;
    }
  }
}

void StagedWorkers::give(StagedJob job) {
  std::lock_guard lock(mutex_);
  if (!job.call || job.call->workers == 1)
    return give_to(workers_[job.index % workers_.size()], std::move(job));
  for (Worker& worker : workers_) give_to(worker, job);
}

void StagedWorkers::give_to(Worker& worker, StagedJob job) {
  worker.jobs.push(std::move(job));
  ++worker.given;
  worker.changed.notify_one();
}

void StagedWorkers::stop() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    for (Worker& worker : workers_) worker.changed.notify_all();
  }
  for (Worker& worker : workers_)
    if (worker.thread.joinable()) worker.thread.join();
}

void StagedWorkers::work_off(std::uint32_t number) {
  std::unique_lock lock(mutex_);
  Worker& worker = workers_[number];
  for (;;) {
    await_job(number, lock);
    if (worker.jobs.empty()) return;
    StagedJob job = worker.jobs.pop();
    ++worker.taken;
    worker.looks = true;
    lock.unlock();
    duties_.job(job, number);
    job = {};
    lock.lock();
    worker.worked = now();
  }
}

// Returns without a job when this is closing and there is nothing else to look after either.
void StagedWorkers::await_job(std::uint32_t number, std::unique_lock<std::mutex>& lock) {
  Worker& worker = workers_[number];
  for (Nanoseconds until = 0; worker.jobs.empty();) {
    lock.unlock();
    const bool more = worker.looks && duties_.meanwhile(number);
    lock.lock();
    if (!worker.jobs.empty()) return;
    if (closing_ && until == 0) until = now() + duties_.patience;
    if (closing_ && (!more || (duties_.failed && now() > until))) return;
    if (now() - worker.worked < kAwake) {
      lock.unlock();
      while (worker.given == worker.taken && now() - worker.worked < kAwake) ::sched_yield();
      lock.lock();
    } else if (more) {
      worker.changed.wait_for(lock, kMeanwhileEvery);
    } else {
      worker.changed.wait(lock, [&] { return closing_ || !worker.jobs.empty(); });
    }
  }
}

}  // namespace ddl
