// A whole job inside the test process whose nonblocking all-reduces are fused.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/gradient/lazy_all_reduce.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl::test {

class LazyJob {
 public:
  explicit LazyJob(std::vector<HostIndex> host_of_rank) : job(std::move(host_of_rank)) {}

  /// A communicator of all ranks: by rank, as in its name `id`, so far that blocking calls can be made.
  struct Comm {
    std::vector<Communicator*> plain;
    std::vector<std::unique_ptr<LazyAllReduce>> lazy;
  };
  Comm create(CommId id, Bytes threshold, WireRule wire = {}, std::size_t slots = 1) {
    Comm comm;
    const std::vector<Rank> all = everybody(job.size());
    std::vector<std::shared_ptr<PlanStore>> plans = job.plans_of(all);
    for (Rank rank : all) {
      const std::shared_ptr<PlanStore>& mine = plans[static_cast<std::size_t>(rank)];
      comm.plain.push_back(&job.engine(rank).create(id, mine));
      auto plan_for = [mine](Bytes bytes, const WireFormat& format) -> PreparedPlan& {
        return mine->plan_for({}, bytes, format);
      };
      comm.lazy.push_back(std::make_unique<LazyAllReduce>(
          job.engine(rank), mine, LazyAllReduce::Identities{id + 1'000'000, id + 2'000'000, id}, slots,
          fusion_rule(threshold, true), wire, plan_for, memory[static_cast<std::size_t>(rank)]));
    }
    return comm;
  }

  VirtualJob job;
  std::vector<FusionMemory> memory{static_cast<std::size_t>(job.size())};
};

/// Ends a job that hangs, as long as this is there.
class EndsHangingJob {
 public:
  explicit EndsHangingJob(VirtualJob& job)
      : thread_([this, &job] {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, std::chrono::seconds(60), [this] { return is_over_; })) return;
          for (Rank rank = 0; rank < job.size(); ++rank) job.engine(rank).fail("a rank waits for ever");
        }) {}
  ~EndsHangingJob() {
    {
      std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

inline Call sum_of(const void* in, void* out, Elements count) {
  return {in, out, count, DType::float32, Op::sum, "sum"};
}

}  // namespace ddl::test
