#include "core/bootstrap/pmix_job.hpp"

#include <fmt/format.h>
#include <pmix.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/bootstrap/pmix_get.hpp"

namespace ddl {
namespace {

std::atomic<int> calls{0};  // each publishes under a key of its own

class OpenedJob final : public PmixJob {
 public:
  OpenedJob(const pmix_proc_t& self, double timeout_s)
      : self_(self), timeout_s_(static_cast<int>(timeout_s) + 1) {
    size_ = static_cast<Rank>(pmix_job_number(self_, PMIX_JOB_SIZE, timeout_s_).value_or(0));
    if (size_ == 0) throw Error("PMIx does not tell the size of the job");
  }

  Rank rank() const override { return static_cast<Rank>(self_.rank); }
  Rank size() const override { return size_; }

  std::vector<std::byte> from_rank_0(std::span<const std::byte> mine) override {
    const std::string key = fmt::format("ddl.1.rank0.{}", ++calls);
    if (rank() == 0) {
      pmix_publish(key.c_str(), mine);
    }
    fence();
    if (rank() == 0) return {mine.begin(), mine.end()};
    const pmix_proc_t first = pmix_proc(self_.nspace, 0);
    auto [status, value] = pmix_get(first, key.c_str(), nullptr, timeout_s_);
    std::optional<std::vector<std::byte>> bytes;
    if (value) bytes = pmix_take_bytes(value);
    if (!bytes)
      throw Error(fmt::format("PMIx does not tell what rank 0 has published: {}",
                              DDL_PMIX(PMIx_Error_string)(status)));
    return std::move(*bytes);
  }

 private:
  // What was published is everywhere when all ranks have come. PMIx 4 has no fence with a timeout.
  void fence() {
    struct Fence {
      std::mutex mutex;
      std::condition_variable ends;
      std::optional<pmix_status_t> status;
    };
    auto fence = std::make_shared<Fence>();
    const pmix_info_t collect = pmix_info(PMIX_COLLECT_DATA, true);
    auto done = [](pmix_status_t status, void* data) {
      std::unique_ptr<std::shared_ptr<Fence>> owner(static_cast<std::shared_ptr<Fence>*>(data));
      Fence& of_all = **owner;
      std::lock_guard lock(of_all.mutex);
      of_all.status = status;
      of_all.ends.notify_one();
    };
    auto* own = new std::shared_ptr<Fence>(fence);
    pmix_status_t status = DDL_PMIX(PMIx_Fence_nb)(nullptr, 0, &collect, 1, done, own);
    if (status != PMIX_SUCCESS) {
      delete own;
      if (status != PMIX_OPERATION_SUCCEEDED)
        throw Error(
            fmt::format("PMIx brings the ranks not together: {}", DDL_PMIX(PMIx_Error_string)(status)));
      return;
    }
    std::unique_lock lock(fence->mutex);
    if (!fence->ends.wait_for(lock, std::chrono::seconds(timeout_s_),
                              [&] { return fence->status.has_value(); }))
      throw Error(fmt::format("not all ranks have come within {} s", timeout_s_), "a job needs all its ranks",
                  "see what keeps them, or raise DDL_TIMEOUT");
    if (*fence->status != PMIX_SUCCESS)
      throw Error(
          fmt::format("PMIx brings the ranks not together: {}", DDL_PMIX(PMIx_Error_string)(*fence->status)));
  }

  pmix_proc_t self_;
  int timeout_s_;
  Rank size_ = 0;
};

// Once for the process, until it ends: PMIx 4 knows nothing of the job when it is begun again after its end.
const pmix_proc_t* begun() {
  static std::optional<pmix_proc_t> self = []() -> std::optional<pmix_proc_t> {
    static pid_t owner = ::getpid();
    pmix_proc_t proc;
    if (foreign_env("PMIX_NAMESPACE").empty()) return std::nullopt;
    if (!pmix_begin(proc)) return std::nullopt;
    std::atexit([] {
      if (::getpid() == owner) DDL_PMIX(PMIx_Finalize)(nullptr, 0);
    });
    return proc;
  }();
  return self ? &*self : nullptr;
}

}  // namespace

std::unique_ptr<PmixJob> PmixJob::open(double timeout_s) {
  const pmix_proc_t* self = begun();
  return self ? std::make_unique<OpenedJob>(*self, timeout_s) : nullptr;
}

}  // namespace ddl
