// What a rank shows the others of its host: for calls that the device does staging of ours on the GPU,
// exported by CUDA IPC, and flags in shared memory, pinned; for those that the host does shared memory alone,
// pinned for its owner.
//
// Both are kept for good and used again: CUDA may let a free, an unmapping or an unpinning wait for
// everything the device has to do, and so for collectives that wait for whoever asks. What other processes
// show is opened once, and likewise kept. Thread safety: all.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "core/device/device_calls.hpp"
#include "core/transport/region.hpp"

namespace ddl::gpu_window {

/// For the other ranks; travels as it is.
struct ExportedWindow {
  std::uint64_t of_process = 0;  // the same number in one process, and nowhere else
  pid_t process = 0;
  int flags_file = -1;
  cuda::Context context = nullptr;  // of that process
  std::uint64_t nonce = 0;
  cuda::IpcHandle handle{};
  DeviceWindow inside{};             // for ranks of the same process
  std::byte* inside_host = nullptr;  // likewise
};

struct Own {
  DeviceWindow window;        // no memory: on the host alone
  std::byte* host = nullptr;  // behind the flags, in pages that were 0 when they were made
  cuda::DevicePointer host_on_device = 0;
  unsigned raiser = 0;  // of who has memory, see RaisedAfterwards
  Bytes bytes = 0, host_bytes = 0;
  cuda::Context context = nullptr;
  std::shared_ptr<Region> flags;
  ExportedWindow endpoint;
};

/// Staging of that many bytes on the device, or one given back before: to be given back or abandoned. Throws
/// Error.
Own take(const cuda::Driver& driver, cuda::Context context, Bytes bytes);
/// The same on the host.
Own take_on_host(const cuda::Driver& driver, cuda::Context context, Bytes bytes);
/// Nobody uses it any more, here or elsewhere.
void give_back(Own own);

/// Others may still reach into it: it stays as it is, for good.
void abandon(Own own);

/// Another rank's, as this context sees it. Throws Error.
DeviceWindow open(const cuda::Driver& driver, cuda::Context context, const ExportedWindow& endpoint);
/// Its host memory, for as long as that is held. Throws Error.
std::shared_ptr<std::byte> open_host(const ExportedWindow& endpoint);

}  // namespace ddl::gpu_window
