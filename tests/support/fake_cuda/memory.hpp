// "Device" memory of the test double: a memory file mapped twice, without access for the program and readable
// for the double's own copies, so that nothing has to be opened for a moment. Pinned memory: plain memory on
// record. Thread safety: all.
#pragma once

#include <memory>
#include <optional>

#include "core/device/cuda_driver.hpp"

namespace fake_cuda {

using ddl::cuda::Device;
using ddl::cuda::DevicePointer;
using ddl::cuda::IpcHandle;

struct Area {
  DevicePointer begin = 0;  // what the program knows
  std::size_t bytes = 0;    // as asked for
  std::size_t mapped_bytes = 0;
  std::byte* inside = nullptr;  // the same bytes, for us
  int file = -1;                // of device memory; -1: pinned
  Device device = 0;
  bool imported = false;     // another process's
  bool registered = false;   // pinned memory that the program has made
  bool of_pool = false;      // of the device, and of no context
  std::uint64_t number = 0;  // no other one's
  Area() = default;
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  ~Area();
};

/// A range of bytes we may touch, kept alive while it is held.
struct Range {
  std::byte* at;
  std::shared_ptr<Area> area;  // null: ordinary host memory
};

DevicePointer allocate_device(Device device, std::size_t bytes, bool of_pool = false);  // 0: no memory
void* allocate_pinned(std::size_t bytes);                                               // null: no memory
bool register_pinned(void* pointer, std::size_t bytes);  // false: some of it is registered
bool unregister_pinned(void* pointer);
bool free_device(DevicePointer pointer);  // false: not one of ours
bool free_pinned(void* pointer);
bool close_device(DevicePointer pointer);  // false: not imported
void forget_all(Device device);            // of its memory
bool export_device(DevicePointer pointer, IpcHandle& handle);
DevicePointer import_device(const IpcHandle& handle, Device device);  // 0: it is gone

enum class Kind { kDevice, kPinned, kAny };
/// Null where the bytes are not all within one area of that kind; kAny takes ordinary memory too.
std::optional<Range> resolve(DevicePointer pointer, std::size_t bytes, Kind kind);

}  // namespace fake_cuda
