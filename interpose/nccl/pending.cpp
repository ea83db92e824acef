#include "interpose/nccl/pending.hpp"

#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/signals.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

std::atomic<bool> any{false};

// The table of all is locked before the record of one.
void settle(Comm& promised, ncclComm_t made, ncclResult_t result) {
  const bool is_made = went_well(result) && made;
  Promise kept = is_made ? Promise{find(made), ncclSuccess} : Promise{nullptr, result};
  {
    std::lock_guard lock(promised.mutex);
    Promise& record = promised.locked_promise;
    if (!record.ended) {
      record = std::move(kept);
      return;
    }
  }
  // Nobody wants it any more.
  kept = {};
  if (is_made) comm_abort(made);
}

ncclResult_t refuse(const char* function, const char* what, const char* why, const char* cure) {
  return complain(nullptr, ncclInvalidArgument,
                  Error::sentence(std::string(function) + " names a communicator that " + what, why, cure));
}

}  // namespace

ncclComm_t make_meanwhile(std::function<ncclResult_t(ncclComm_t* at)> make) {
  CommPtr promised = add(new_handle(), Comm::Owner::nobody_yet);
  any = true;
  auto work = [promised, make = std::move(make)] {
    ncclComm_t made = nullptr;
    const ncclResult_t result = guarded([&] { return make(&made); });
    settle(*promised, made, result);
  };
  try {
    SignalsBlocked blocked;
    std::thread(work).detach();
  } catch (const std::system_error& error) {
    settle(*promised, nullptr, complain(nullptr, ncclSystemError, error.what()));
  }
  return promised->handle;
}

bool has_pending() { return any.load(std::memory_order_acquire); }

Standing standing_of(ncclComm_t comm) {
  CommPtr record = look_up(comm);
  if (!record || !record->is_promised()) return {.record = std::move(record), .real = comm};
  Promise promise = record->promise();
  if (promise.ended) return {.record = std::move(record), .real = comm, .ended = true};
  if (!promise.made) return {.record = std::move(record), .real = comm, .unmade = promise.state};
  const ncclComm_t real = promise.made->handle;
  return {.record = std::move(promise.made), .real = real};
}

ncclResult_t refuse_unmade(const char* function, const Standing& standing) {
  if (standing.ended) return refuse(function, "was destroyed", "", "use it before that");
  if (!standing.unmade) return ncclSuccess;
  return refuse(function, "is not made", "it is still being made, or could not be",
                "wait until ncclCommGetAsyncError tells");
}

ncclComm_t end_promise(ncclComm_t comm) {
  CommPtr record = has_pending() ? look_up(comm) : nullptr;
  if (!record || !record->is_promised()) return comm;
  std::lock_guard lock(record->mutex);
  record->locked_promise.ended = true;
  CommPtr made = std::exchange(record->locked_promise.made, nullptr);
  return made ? made->handle : nullptr;
}

}  // namespace ddl::nccl
