#include "interpose/nccl/stream_comms.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/device/cuda_driver.hpp"
#include "interpose/load_engine.hpp"
#include "interpose/nccl/group.hpp"
#include "interpose/nccl/hierarchies.hpp"
#include "interpose/nccl/pending.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/stream_comm.hpp"

namespace ddl::nccl {
namespace {

// What the program's handle points to.
struct Block {
  std::uint64_t magic = 0x21646c64'2121'6c64;
  std::uint64_t zeros[7] = {};
};

std::atomic<bool> any{false};

// Of the process; lent to the program.
struct LastError {
  std::mutex mutex;
  std::array<char, DDL_PROBLEM_BYTES> text{};
};

LastError& last_error() {
  static LastError* the_error = new LastError;  // outlives exit handlers of the program
  return *the_error;
}

const ddl_stream_api* load() {
  const cuda::Found* driver = cuda::process_driver(cuda::Load::kOnDemand);
  if (!driver || !driver->usable() || !environment().enable) return nullptr;
  const char* why = nullptr;
  if (const ddl_engine_api* all = load_engine(&why)) return all->stream;
  log_warning(std::string("NCCL's calls use the original library: ") + why);
  return nullptr;
}

}  // namespace

const ddl_stream_api* id_api() {
  static const ddl_stream_api* const loaded = load();
  return loaded;
}

const ddl_stream_api* stream_api() {
  static const ddl_stream_api* const usable = id_api() && id_api()->usable() ? id_api() : nullptr;
  return usable;
}

ncclComm_t new_handle() { return reinterpret_cast<ncclComm_t>(new Block); }

ncclComm_t adopt(ddl_stream_comm* ours, int rank, int size, int device) {
  auto made = std::make_shared<StreamComm>();
  made->engine = ours;
  made->rank = rank;
  made->size = size;
  made->device = device;
  made->fuses = stream_api()->fuses(ours) != 0;
  CommPtr record = add(new_handle(), Comm::Owner::engine);
  std::lock_guard lock(record->mutex);
  record->locked_stream = std::move(made);
  any = true;
  return record->handle;
}

bool has_ours() { return any.load(std::memory_order_acquire); }

ncclResult_t complain(ncclComm_t comm, ncclResult_t result, const std::string& text) {
  auto keep = [&](std::array<char, DDL_PROBLEM_BYTES>& place) {
    place[text.copy(place.data(), place.size() - 1)] = 0;
  };
  log_error(text);
  CommPtr record = find_ours(comm);
  if (std::shared_ptr<StreamComm> ours = record ? record->stream() : nullptr) {
    std::lock_guard lock(ours->mutex);
    keep(ours->last_error);
  }
  std::lock_guard lock(last_error().mutex);
  keep(last_error().text);
  return result;
}

ncclResult_t result_of(ddl_stream_result result) {
  switch (result) {
    case DDL_STREAM_OK:
      return ncclSuccess;
    case DDL_STREAM_CUDA:
      return ncclUnhandledCudaError;
    case DDL_STREAM_SYSTEM:
      return ncclSystemError;
    case DDL_STREAM_BAD_ARGUMENT:
      return ncclInvalidArgument;
    case DDL_STREAM_BAD_USAGE:
      return ncclInvalidUsage;
    case DDL_STREAM_PEER:
      return ncclRemoteError;
    case DDL_STREAM_INTERNAL:
      break;
  }
  return ncclInternalError;
}

ncclResult_t refuse_ours(ncclComm_t comm, const char* name) {
  return complain(comm, ncclInvalidUsage,
                  Error::sentence(std::string(name) + " is not possible on this communicator",
                                  "the engine itself serves it, without NCCL",
                                  "give every rank a GPU of its own, and NCCL serves it"));
}

void abandon_ours() noexcept {
  guarded([] {
    std::vector<std::shared_ptr<StreamComm>> left;
    for_each([&](Comm& record) { left.push_back(record.stream()); });
    for (const std::shared_ptr<StreamComm>& ours : left)
      if (ours) stream_api()->abort(ours->engine);
    return ncclSuccess;
  });
}

// ---- hooks ----

namespace {

template <class Original>
ncclResult_t tell(ncclComm_t comm, const char* name, int* at, int StreamComm::*what, Original original) {
  CommPtr record = find_ours(comm);
  if (!record) return original(comm, at);
  return with_ours(*record, name, [&](StreamComm& ours) -> ncclResult_t {
    if (!at) return complain(comm, ncclInvalidArgument, std::string(name) + " has no place for its answer");
    *at = ours.*what;
    return ncclSuccess;
  });
}

}  // namespace

ncclResult_t comm_count(ncclComm_t comm, int* count) {
  return tell(comm, "ncclCommCount", count, &StreamComm::size, original::ncclCommCount);
}

ncclResult_t comm_user_rank(ncclComm_t comm, int* rank) {
  return tell(comm, "ncclCommUserRank", rank, &StreamComm::rank, original::ncclCommUserRank);
}

ncclResult_t comm_cu_device(ncclComm_t comm, int* device) {
  return tell(comm, "ncclCommCuDevice", device, &StreamComm::device, original::ncclCommCuDevice);
}

ncclResult_t comm_get_async_error(ncclComm_t handle, ncclResult_t* error) {
  const Standing standing = standing_of(handle);
  if (standing.unmade) return error ? *error = *standing.unmade, ncclSuccess : ncclInvalidArgument;
  if (!standing.record || !standing.record->is_ours())
    return async_error_with_hierarchy(standing.real, standing.record, error);
  return with_ours(*standing.record, "ncclCommGetAsyncError", [&](StreamComm& ours) -> ncclResult_t {
    ddl_problem said;
    if (!error) return ncclInvalidArgument;
    *error = result_of(stream_api()->state(ours.engine, &said));
    if (*error == ncclSuccess) return ncclSuccess;
    std::lock_guard lock(ours.mutex);
    std::copy(std::begin(said.text), std::end(said.text), ours.last_error.begin());
    return ncclSuccess;
  });
}

// Calls are on their streams already; destroying waits for them.
ncclResult_t comm_finalize(ncclComm_t comm) {
  if (!comm && !next().ncclCommFinalize) return ncclSuccess;
  CommPtr record = look_up(comm);
  if (!record || !record->is_ours()) {
    finish_calls_on(comm);
    return open_group(), finalize_with_hierarchy(comm, record);
  }
  return with_ours(*record, "ncclCommFinalize", [](StreamComm&) -> ncclResult_t { return ncclSuccess; });
}

// A hint that memory will be used again and again: nothing to gain here.
ncclResult_t comm_register(ncclComm_t comm, void* buffer, std::size_t bytes, void** handle) {
  CommPtr record = find_ours(comm);
  if (!record) return open_group(), original::ncclCommRegister(comm, buffer, bytes, handle);
  return with_ours(*record, "ncclCommRegister", [&](StreamComm&) -> ncclResult_t {
    if (!handle) return ncclInvalidArgument;
    *handle = buffer;
    return ncclSuccess;
  });
}

ncclResult_t comm_deregister(ncclComm_t comm, void* handle) {
  CommPtr record = find_ours(comm);
  if (!record) return open_group(), original::ncclCommDeregister(comm, handle);
  return with_ours(*record, "ncclCommDeregister", [](StreamComm&) -> ncclResult_t { return ncclSuccess; });
}

namespace {

// Its record stays, so that the handle is known for good. Another thread that is inside a call finishes that
// first.
ncclResult_t end(Comm& record, const char* name) {
  return with_ours(record, name, [&](StreamComm&) -> ncclResult_t {
    std::shared_ptr<StreamComm> last;
    std::unique_lock lock(record.mutex);
    last.swap(record.locked_stream);
    lock.unlock();
    return ncclSuccess;
  });
}

}  // namespace

ncclResult_t destroy_ours(Comm& record) { return end(record, "ncclCommDestroy"); }

ncclResult_t abort_ours(Comm& record) {
  if (std::shared_ptr<StreamComm> ours = record.stream()) stream_api()->abort(ours->engine);
  return end(record, "ncclCommAbort");
}

const char* get_last_error(ncclComm_t handle) {
  const Standing standing = standing_of(handle);
  const CommPtr& record = standing.record;
  if (std::shared_ptr<StreamComm> ours = record ? record->stream() : nullptr) return ours->last_error.data();
  const char* of_process = last_error().text.data();
  const bool has_no_other =
      !standing.real ? *of_process != 0 : record && (record->is_ours() || record->is_promised());
  return has_no_other ? of_process : original::ncclGetLastError(standing.real);
}

ncclResult_t mem_alloc(void** address, std::size_t bytes) {
  if (next().ncclMemAlloc || !stream_api()) return original::ncclMemAlloc(address, bytes);
  ddl_problem problem;
  ncclResult_t result = result_of(stream_api()->allocate(address, bytes, &problem));
  return result == ncclSuccess ? result
                               : complain(nullptr, result, std::string("ncclMemAlloc: ") + problem.text);
}

ncclResult_t mem_free(void* address) {
  if (next().ncclMemFree || !stream_api()) return original::ncclMemFree(address);
  ddl_problem problem;
  ncclResult_t result = result_of(stream_api()->release(address, &problem));
  return result == ncclSuccess ? result
                               : complain(nullptr, result, std::string("ncclMemFree: ") + problem.text);
}

}  // namespace ddl::nccl
