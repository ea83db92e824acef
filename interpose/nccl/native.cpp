#include "interpose/nccl/native.hpp"

#include <atomic>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/device/cuda_driver.hpp"
#include "interpose/load_engine.hpp"
#include "interpose/nccl/companions.hpp"
#include "interpose/nccl/group.hpp"
#include "interpose/nccl/native_comm.hpp"
#include "interpose/nccl/pending.hpp"

namespace ddl::nccl {
namespace {

// What the program's handle points to.
struct Block {
  std::uint64_t magic = 0x21646c64'2121'6c64;
  std::uint64_t zeros[7] = {};
};

struct Table {
  std::atomic<bool> any{false};
  std::shared_mutex mutex;
  std::unordered_map<ncclComm_t, std::shared_ptr<NativeComm>> comms;
  std::array<char, DDL_NATIVE_TEXT_BYTES> last_error{};  // of the process; lent to the program
};

Table& table() {
  static Table* the_table = new Table;  // outlives exit handlers of the program
  return *the_table;
}

const ddl_native_api* load() {
  const cuda::Found* driver = cuda::process_driver(cuda::Load::kOnDemand);
  if (!driver || !driver->usable()) return nullptr;
  const char* why = nullptr;
  if (const ddl_engine_api* all = load_engine(&why)) return all->native->usable() ? all->native : nullptr;
  log_warning(std::string("NCCL's calls use the original library: ") + why);
  return nullptr;
}

}  // namespace

const ddl_native_api* engine() {
  static const ddl_native_api* const loaded = load();
  return loaded;
}

ncclComm_t new_handle() { return reinterpret_cast<ncclComm_t>(new Block); }

ncclComm_t adopt(ddl_native* native, int rank, int size, int device) {
  auto made = std::make_shared<NativeComm>();
  made->engine = native;
  made->rank = rank;
  made->size = size;
  made->device = device;
  ncclComm_t comm = new_handle();
  Table& t = table();
  std::unique_lock lock(t.mutex);
  t.comms[comm] = std::move(made);
  t.any = true;
  return comm;
}

bool has_natives() { return table().any.load(std::memory_order_acquire); }

bool is_native(ncclComm_t comm) {
  Table& t = table();
  if (!has_natives() || !comm) return false;
  std::shared_lock lock(t.mutex);
  return t.comms.count(comm) != 0;
}

std::shared_ptr<NativeComm> find_native(ncclComm_t comm) {
  Table& t = table();
  std::shared_lock lock(t.mutex);
  auto found = t.comms.find(comm);
  return found == t.comms.end() ? nullptr : found->second;
}

ncclResult_t complain(ncclComm_t comm, ncclResult_t result, const std::string& text) {
  auto keep = [&](std::array<char, DDL_NATIVE_TEXT_BYTES>& place) {
    place[text.copy(place.data(), place.size() - 1)] = 0;
  };
  log_error(text);
  if (std::shared_ptr<NativeComm> native = find_native(comm)) {
    std::lock_guard lock(native->mutex);
    keep(native->last_error);
  }
  std::unique_lock lock(table().mutex);
  keep(table().last_error);
  return result;
}

ncclResult_t result_of(ddl_native_result result) {
  switch (result) {
    case DDL_NATIVE_OK:
      return ncclSuccess;
    case DDL_NATIVE_CUDA:
      return ncclUnhandledCudaError;
    case DDL_NATIVE_SYSTEM:
      return ncclSystemError;
    case DDL_NATIVE_BAD_ARGUMENT:
      return ncclInvalidArgument;
    case DDL_NATIVE_BAD_USAGE:
      return ncclInvalidUsage;
    case DDL_NATIVE_PEER:
      return ncclRemoteError;
    case DDL_NATIVE_INTERNAL:
      break;
  }
  return ncclInternalError;
}

ncclResult_t not_native(ncclComm_t comm, const char* name) {
  return complain(comm, ncclInvalidUsage,
                  Error::sentence(std::string(name) + " is not possible on this communicator",
                                  "the engine itself serves it, without NCCL",
                                  "give every rank a GPU of its own, and NCCL serves it"));
}

void abandon_natives() noexcept {
  guarded([] {
    std::vector<std::shared_ptr<NativeComm>> left;
    {
      std::shared_lock lock(table().mutex);
      for (auto& [comm, native] : table().comms)
        if (native) left.push_back(native);
    }
    for (auto& native : left) engine()->abort(native->engine);
    return ncclSuccess;
  });
}

// ---- hooks ----

namespace {

template <class Original>
ncclResult_t tell(ncclComm_t comm, const char* name, int* at, int NativeComm::*what, Original original) {
  if (!is_native(comm)) return original(comm, at);
  return with_native(comm, name, [&](NativeComm& native) -> ncclResult_t {
    if (!at) return complain(comm, ncclInvalidArgument, std::string(name) + " has no place for its answer");
    *at = native.*what;
    return ncclSuccess;
  });
}

}  // namespace

ncclResult_t comm_count(ncclComm_t comm, int* count) {
  return tell(comm, "ncclCommCount", count, &NativeComm::size, original::ncclCommCount);
}

ncclResult_t comm_user_rank(ncclComm_t comm, int* rank) {
  return tell(comm, "ncclCommUserRank", rank, &NativeComm::rank, original::ncclCommUserRank);
}

ncclResult_t comm_cu_device(ncclComm_t comm, int* device) {
  return tell(comm, "ncclCommCuDevice", device, &NativeComm::device, original::ncclCommCuDevice);
}

ncclResult_t comm_get_async_error(ncclComm_t handle, ncclResult_t* error) {
  std::optional<ncclResult_t> unmade = state_of_unmade(handle);
  if (unmade) return error ? *error = *unmade, ncclSuccess : ncclInvalidArgument;
  ncclComm_t comm = real(handle);  // it may have been made meanwhile
  if (!is_native(comm)) return async_error_with_companion(comm, error);
  return with_native(comm, "ncclCommGetAsyncError", [&](NativeComm& native) -> ncclResult_t {
    ddl_problem said;
    if (!error) return ncclInvalidArgument;
    *error = result_of(engine()->state(native.engine, &said));
    if (*error == ncclSuccess) return ncclSuccess;
    std::lock_guard lock(native.mutex);
    std::copy(std::begin(said.text), std::end(said.text), native.last_error.begin());
    return ncclSuccess;
  });
}

// Calls are on their streams already; destroying waits for them.
ncclResult_t comm_finalize(ncclComm_t comm) {
  if (!is_native(comm)) {
    finish_calls_on(comm);
    return open_group(), finalize_with_companion(comm);
  }
  return with_native(comm, "ncclCommFinalize", [](NativeComm&) -> ncclResult_t { return ncclSuccess; });
}

// A hint that memory will be used again and again: nothing to gain here.
ncclResult_t comm_register(ncclComm_t comm, void* buffer, std::size_t bytes, void** handle) {
  if (!is_native(comm)) return open_group(), original::ncclCommRegister(comm, buffer, bytes, handle);
  return with_native(comm, "ncclCommRegister", [&](NativeComm&) -> ncclResult_t {
    if (!handle) return ncclInvalidArgument;
    *handle = buffer;
    return ncclSuccess;
  });
}

ncclResult_t comm_deregister(ncclComm_t comm, void* handle) {
  if (!is_native(comm)) return open_group(), original::ncclCommDeregister(comm, handle);
  return with_native(comm, "ncclCommDeregister", [](NativeComm&) -> ncclResult_t { return ncclSuccess; });
}

namespace {

// Its place in the table stays, so that the handle is known for good. Another thread that is inside a call
// finishes that first.
ncclResult_t end(ncclComm_t comm, const char* name) {
  return with_native(comm, name, [&](NativeComm&) -> ncclResult_t {
    std::shared_ptr<NativeComm> last;
    std::unique_lock lock(table().mutex);
    last.swap(table().comms[comm]);
    lock.unlock();
    return ncclSuccess;
  });
}

}  // namespace

ncclResult_t destroy_native(ncclComm_t comm) { return end(comm, "ncclCommDestroy"); }

ncclResult_t abort_native(ncclComm_t comm) {
  if (std::shared_ptr<NativeComm> native = find_native(comm)) engine()->abort(native->engine);
  return end(comm, "ncclCommAbort");
}

const char* get_last_error(ncclComm_t handle) {
  const bool unmade = state_of_unmade(handle).has_value() || is_ended(handle);
  ncclComm_t comm = real(handle);
  if (std::shared_ptr<NativeComm> native = find_native(comm)) return native->last_error.data();
  bool ours = table().last_error[0] != 0;
  return (ours && !comm) || unmade || is_native(comm) ? table().last_error.data()
                                                      : original::ncclGetLastError(comm);
}

ncclResult_t mem_alloc(void** address, std::size_t bytes) {
  if (next().ncclMemAlloc || !engine()) return original::ncclMemAlloc(address, bytes);
  ddl_problem problem;
  ncclResult_t result = result_of(engine()->allocate(address, bytes, &problem));
  return result == ncclSuccess ? result
                               : complain(nullptr, result, std::string("ncclMemAlloc: ") + problem.text);
}

ncclResult_t mem_free(void* address) {
  if (next().ncclMemFree || !engine()) return original::ncclMemFree(address);
  ddl_problem problem;
  ncclResult_t result = result_of(engine()->release(address, &problem));
  return result == ncclSuccess ? result
                               : complain(nullptr, result, std::string("ncclMemFree: ") + problem.text);
}

}  // namespace ddl::nccl
