// The exported functions of the test double that concern memory: allocation, copies, values in memory, IPC.
#include <time.h>

#include <cstring>
#include <vector>

#include "tests/support/fake_cuda/devices.hpp"
#include "tests/support/fake_cuda/memory.hpp"
#include "tests/support/fake_cuda/prototypes.hpp"
#include "tests/support/fake_cuda/streams.hpp"

namespace fake = fake_cuda;
using fake::Kind;
using fake::Range;

namespace {

DevicePointer address(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

// A call that may fail on request and needs a context.
Result begin(const char* function) {
  RETURN_IF_FAILED(fake::on_call(function));
  return fake::current() ? kSuccess : kInvalidContext;
}

Result enqueue(Stream given, std::function<void()> operation) {
  Stream stream = nullptr;
  RETURN_IF_FAILED(fake::stream_meant(given, stream));
  return fake::submit(stream, std::move(operation));
}

Result copy(DevicePointer to, Kind to_kind, DevicePointer from, Kind from_kind, std::size_t bytes,
            Stream stream) {
  std::optional<Range> target = fake::resolve(to, bytes, to_kind),
                       source = fake::resolve(from, bytes, from_kind);
  if (!target || !source) return kInvalidValue;
  return enqueue(stream, [=] { std::memmove(target->at, source->at, bytes); });
}

// Pinned memory is at the same address for the device; ordinary host memory is no place for a value.
std::uint32_t* value_at(DevicePointer pointer, std::optional<Range>& keep) {
  if (pointer % sizeof(std::uint32_t) != 0) return nullptr;
  keep = fake::resolve(pointer, sizeof(std::uint32_t), Kind::kPinned);
  if (!keep) keep = fake::resolve(pointer, sizeof(std::uint32_t), Kind::kDevice);
  return keep ? reinterpret_cast<std::uint32_t*>(static_cast<void*>(keep->at)) : nullptr;
}

}  // namespace

Result cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  RETURN_IF_FAILED(begin("cuMemAlloc"));
  RETURN_IF_FAILED(fake::refuse_during_capture());
  if (bytes == 0) return kInvalidValue;
  *pointer = fake::allocate_device(fake::device_of(fake::current()), bytes);
  return *pointer ? kSuccess : kOutOfMemory;
}

// Of the device's pool, at once; freed as other memory.
Result cuMemAllocAsync(DevicePointer* pointer, std::size_t bytes, Stream) {
  RETURN_IF_FAILED(begin("cuMemAllocAsync"));
  *pointer = bytes ? fake::allocate_device(fake::device_of(fake::current()), bytes, true) : 0;
  return *pointer ? kSuccess : kOutOfMemory;
}

Result cuMemFree_v2(DevicePointer pointer) {
  if (!fake::current()) return kInvalidContext;
  RETURN_IF_FAILED(fake::refuse_during_capture());
  fake::synchronize_all(fake::current());
  return pointer == 0 || fake::free_device(pointer) ? kSuccess : kInvalidValue;
}

Result cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  RETURN_IF_FAILED(begin("cuMemHostAlloc"));
  RETURN_IF_FAILED(fake::refuse_during_capture());
  *pointer = bytes ? fake::allocate_pinned(bytes) : nullptr;
  return *pointer ? kSuccess : kOutOfMemory;
}

Result cuMemFreeHost(void* pointer) {
  if (!fake::current()) return kInvalidContext;
  RETURN_IF_FAILED(fake::refuse_during_capture());
  fake::synchronize_all(fake::current());
  return fake::free_pinned(pointer) ? kSuccess : kInvalidValue;
}

Result cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned) {
  RETURN_IF_FAILED(begin("cuMemHostRegister"));
  RETURN_IF_FAILED(fake::refuse_during_capture());
  if (!pointer || bytes == 0) return kInvalidValue;
  return fake::register_pinned(pointer, bytes) ? kSuccess : kAlreadyRegistered;
}

Result cuMemHostUnregister(void* pointer) {
  if (!fake::current()) return kInvalidContext;
  RETURN_IF_FAILED(fake::refuse_during_capture());
  fake::synchronize_all(fake::current());
  return fake::unregister_pinned(pointer) ? kSuccess : kInvalidValue;
}

Result cuMemHostGetDevicePointer_v2(DevicePointer* pointer, void* host, unsigned) {
  *pointer = address(host);
  return fake::resolve(*pointer, 1, Kind::kPinned) ? kSuccess : kInvalidValue;
}

Result cuPointerGetAttribute(void* data, int attribute, DevicePointer pointer) {
  RETURN_IF_FAILED(fake::initialised());
  std::optional<Range> device = fake::resolve(pointer, 1, Kind::kDevice);
  std::optional<Range> known = device ? device : fake::resolve(pointer, 1, Kind::kPinned);
  if (!known) return kInvalidValue;  // the program's own memory
  unsigned type = device ? kMemoryTypeDevice : kMemoryTypeHost;
  int ordinal = known->area->device;
  Context context = known->area->of_pool ? nullptr : fake::primary_context(ordinal);
  switch (attribute) {
    case kPointerMemoryType:
      std::memcpy(data, &type, sizeof type);
      return kSuccess;
    case kPointerBufferId:
      std::memcpy(data, &known->area->number, sizeof known->area->number);
      return kSuccess;
    case kPointerIsManaged:
      std::memset(data, 0, sizeof(unsigned));
      return kSuccess;
    case kPointerOrdinal:
      std::memcpy(data, &ordinal, sizeof ordinal);
      return kSuccess;
    case kPointerContext:
      std::memcpy(data, &context, sizeof context);
      return kSuccess;
    default:
      return kNotSupported;
  }
}

// ---- copies ----

Result cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) {
  RETURN_IF_FAILED(begin("cuMemcpyAsync"));
  return copy(to, Kind::kAny, from, Kind::kAny, bytes, stream);
}

Result cuMemcpy(DevicePointer to, DevicePointer from, std::size_t bytes) {
  RETURN_IF_FAILED(begin("cuMemcpy"));
  RETURN_IF_FAILED(fake::refuse_during_capture());
  std::optional<Range> target = fake::resolve(to, bytes, Kind::kAny),
                       source = fake::resolve(from, bytes, Kind::kAny);
  if (!target || !source) return kInvalidValue;
  RETURN_IF_FAILED(cuStreamSynchronize(nullptr));
  if (source->area || !target->area || target->area->file < 0) {
    RETURN_IF_FAILED(copy(to, Kind::kAny, from, Kind::kAny, bytes, nullptr));
    return cuStreamSynchronize(nullptr);
  }
  // From pageable memory it is done when the driver has read it, and the device has not yet.
  std::vector<std::byte> read(source->at, source->at + bytes);
  return enqueue(nullptr, [target, read = std::move(read)] {
    const timespec moment = {0, 1'000'000};
    ::nanosleep(&moment, nullptr);
    std::memcpy(target->at, read.data(), read.size());
  });
}

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes, Stream stream) {
  RETURN_IF_FAILED(begin("cuMemcpyHtoDAsync"));
  return copy(to, Kind::kDevice, address(from), Kind::kAny, bytes, stream);
}

Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, Stream stream) {
  RETURN_IF_FAILED(begin("cuMemcpyDtoHAsync"));
  return copy(address(to), Kind::kAny, from, Kind::kDevice, bytes, stream);
}

Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) {
  RETURN_IF_FAILED(begin("cuMemcpyDtoDAsync"));
  return copy(to, Kind::kDevice, from, Kind::kDevice, bytes, stream);
}

// ---- values in memory ----

// From pinned or plain memory of the host to a device, as much as is needed here.
Result cuMemcpy2DAsync_v2(const CopyOfRows* rows, Stream stream) {
  RETURN_IF_FAILED(begin("cuMemcpy2DAsync"));
  if (rows->from.type != kMemoryTypeHost || rows->to.type != kMemoryTypeDevice ||
      rows->width > rows->from.pitch || rows->width > rows->to.pitch)
    return kInvalidValue;
  for (std::size_t row = 0; row < rows->height; ++row)
    RETURN_IF_FAILED(cuMemcpyHtoDAsync_v2(rows->to.device + row * rows->to.pitch,
                                          static_cast<const char*>(rows->from.host) + row * rows->from.pitch,
                                          rows->width, stream));
  return kSuccess;
}

namespace {
Result write_value(Stream stream, DevicePointer pointer, std::uint32_t value) {
  std::optional<Range> keep;
  std::uint32_t* at = value_at(pointer, keep);
  if (!at) return kInvalidValue;
  return enqueue(stream, [=] { __atomic_store_n(at, value, __ATOMIC_RELEASE); });
}
}  // namespace

Result cuStreamWriteValue32_v2(Stream stream, DevicePointer pointer, std::uint32_t value, unsigned) {
  RETURN_IF_FAILED(begin("cuStreamWriteValue32"));
  return write_value(stream, pointer, value);
}

Result cuMemsetD32Async(DevicePointer pointer, std::uint32_t value, std::size_t count, Stream stream) {
  RETURN_IF_FAILED(begin("cuMemsetD32Async"));
  return count == 1 ? write_value(stream, pointer, value) : kInvalidValue;  // more is not needed here
}

namespace {
Result wait_value(Stream stream, DevicePointer pointer, std::uint32_t value, unsigned flags) {
  std::optional<Range> keep;
  std::uint32_t* at = value_at(pointer, keep);
  if (!at || flags != kWaitValueGreaterOrEqual) return kInvalidValue;
  return enqueue(stream, [=] {
    const timespec moment = {0, 20'000};
    while (static_cast<std::int32_t>(__atomic_load_n(at, __ATOMIC_ACQUIRE) - value) < 0)
      ::nanosleep(&moment, nullptr);
  });
}
}  // namespace

Result cuStreamWaitValue32_v2(Stream stream, DevicePointer pointer, std::uint32_t value, unsigned flags) {
  RETURN_IF_FAILED(begin("cuStreamWaitValue32"));
  return wait_value(stream, pointer, value, flags);
}

Result cuStreamBatchMemOp_v2(Stream stream, unsigned count, MemoryOperation* operations, unsigned flags) {
  RETURN_IF_FAILED(begin("cuStreamBatchMemOp"));
  if (count == 0 || count > kMostOperations || flags != 0) return kInvalidValue;
  for (const MemoryOperation* one = operations; one != operations + count; ++one) {
    const auto value = static_cast<std::uint32_t>(one->value);
    if (one->operation != kOperationWait && one->operation != kOperationWrite) return kInvalidValue;
    RETURN_IF_FAILED(one->operation == kOperationWait ? wait_value(stream, one->address, value, one->flags)
                                                      : write_value(stream, one->address, value));
  }
  return kSuccess;
}

// ---- between processes ----

Result cuIpcGetMemHandle(IpcHandle* handle, DevicePointer pointer) {
  RETURN_IF_FAILED(begin("cuIpcGetMemHandle"));
  return fake::export_device(pointer, *handle) ? kSuccess : kInvalidValue;
}

Result cuIpcOpenMemHandle_v2(DevicePointer* pointer, IpcHandle handle, unsigned) {
  RETURN_IF_FAILED(begin("cuIpcOpenMemHandle"));
  RETURN_IF_FAILED(fake::refuse_during_capture());
  *pointer = fake::import_device(handle, fake::device_of(fake::current()));
  return *pointer ? kSuccess : kInvalidValue;
}

Result cuIpcCloseMemHandle(DevicePointer pointer) {
  if (!fake::current()) return kInvalidContext;
  RETURN_IF_FAILED(fake::refuse_during_capture());
  fake::synchronize_all(fake::current());
  return fake::close_device(pointer) ? kSuccess : kInvalidValue;
}

void* fake_cuda_inside(DevicePointer pointer) {
  std::optional<Range> range = fake::resolve(pointer, 1, Kind::kDevice);
  return range ? range->at : nullptr;
}
