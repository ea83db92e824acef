#include "interpose/nccl/pending.hpp"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "core/base/signals.hpp"
#include "interpose/nccl/comms.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

struct Pending {
  ncclComm_t made = nullptr;
  ncclResult_t state = ncclInProgress;  // as long as nothing is made
  bool ended = false;                   // it keeps its place, so that the handle is known for good
};

struct Table {
  std::atomic<bool> any{false};
  std::shared_mutex mutex;
  std::unordered_map<ncclComm_t, Pending> all;
};

Table& table() {
  static Table* the_table = new Table;  // outlives exit handlers of the program, and threads
  return *the_table;
}

void settle(ncclComm_t handle, ncclComm_t made, ncclResult_t result) {
  {
    std::unique_lock lock(table().mutex);
    Pending& its = table().all[handle];
    if (!its.ended) {
      its = went_well(result) ? Pending{made, ncclSuccess} : Pending{nullptr, result};
      return;
    }
  }
  // Nobody wants it any more.
  if (went_well(result) && made) comm_abort(made);
}

}  // namespace

ncclComm_t make_meanwhile(std::function<ncclResult_t(ncclComm_t* at)> make) {
  ncclComm_t handle = new_handle();
  {
    std::unique_lock lock(table().mutex);
    table().all[handle] = {};
    table().any = true;
  }
  auto work = [handle, make = std::move(make)] {
    ncclComm_t made = nullptr;
    const ncclResult_t result = guarded([&] { return make(&made); });
    settle(handle, made, result);
  };
  try {
    SignalsBlocked blocked;
    std::thread(work).detach();
  } catch (const std::system_error& error) {
    settle(handle, nullptr, complain(nullptr, ncclSystemError, error.what()));
  }
  return handle;
}

bool has_pending() { return table().any.load(std::memory_order_acquire); }

ncclComm_t real(ncclComm_t comm) {
  if (!has_pending()) return comm;
  std::shared_lock lock(table().mutex);
  auto found = table().all.find(comm);
  return found == table().all.end() || !found->second.made ? comm : found->second.made;
}

std::optional<ncclResult_t> state_of_unmade(ncclComm_t comm) {
  if (!has_pending()) return std::nullopt;
  std::shared_lock lock(table().mutex);
  auto found = table().all.find(comm);
  if (found == table().all.end() || found->second.made || found->second.ended) return std::nullopt;
  return found->second.state;
}

bool is_ended(ncclComm_t comm) {
  if (!has_pending()) return false;
  std::shared_lock lock(table().mutex);
  auto found = table().all.find(comm);
  return found != table().all.end() && found->second.ended;
}

ncclComm_t take_real(ncclComm_t comm) {
  if (!has_pending()) return comm;
  std::unique_lock lock(table().mutex);
  auto found = table().all.find(comm);
  if (found == table().all.end()) return comm;
  found->second.ended = true;
  return std::exchange(found->second.made, nullptr);
}

}  // namespace ddl::nccl
