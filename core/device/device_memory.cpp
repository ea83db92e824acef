#include "core/device/device_memory.hpp"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>

#include "core/base/clock.hpp"
#include "core/device/cuda_driver.hpp"

namespace ddl {
namespace {

// One large copy is no reason to keep as much for good.
constexpr Bytes kMostPinned = Bytes{256} << 20;

// A program may load CUDA at any time, so "not there" is asked again: but not within a few microseconds, in
// which nothing can be loaded, and only when another object has been loaded since, which dl_iterate_phdr
// counts.
constexpr std::uint64_t kAskAgain = 10'000;  // ticks

std::atomic<const cuda::Driver*> found{nullptr};

const cuda::Driver* driver() {
  if (const cuda::Driver* known = found.load(std::memory_order_acquire)) return known;
  static std::atomic<std::uint64_t> asked{quick_ticks() - kAskAgain};
  const std::uint64_t when = quick_ticks();
  if (when - asked.load(std::memory_order_acquire) < kAskAgain) return nullptr;
  static std::atomic<unsigned long long> objects_seen{0};
  unsigned long long loaded = 0;
  auto first = [](dl_phdr_info* info, std::size_t, void* count) {
    *static_cast<unsigned long long*>(count) = info->dlpi_adds;
    return 1;
  };
  ::dl_iterate_phdr(first, &loaded);
  if (objects_seen.load(std::memory_order_acquire) != loaded) {
    const cuda::Found* library = cuda::process_driver(cuda::Load::kOnlyIfLoaded);
    if (library && library->driver.pointer_attribute && library->driver.copy) {
      found.store(&library->driver, std::memory_order_release);
      return &library->driver;
    }
  }
  // Only now: another thread must not take "not yet" for "no".
  objects_seen.store(loaded, std::memory_order_release);
  asked.store(when, std::memory_order_release);
  return nullptr;
}

bool is_device_memory(const cuda::Driver& driver, const void* pointer) {
  unsigned type = 0, managed = 0;
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (driver.pointer_attribute(&type, cuda::kPointerMemoryType, address) != cuda::kSuccess)
    return false;  // unknown to CUDA: plain host memory
  if (type != cuda::kMemoryTypeDevice) return false;
  return driver.pointer_attribute(&managed, cuda::kPointerIsManaged, address) != cuda::kSuccess ||
         managed == 0;
}

// The current one where it is of that device, else the device's primary one, retained for good.
cuda::Context context_on(const cuda::Driver& driver, int ordinal) {
  cuda::Device device = -1, current_device = -1;
  cuda::Context context = nullptr;
  if (!driver.device_get || !driver.context_current || !driver.context_device || !driver.primary_retain ||
      driver.device_get(&device, ordinal) != cuda::kSuccess)
    return nullptr;
  if (driver.context_current(&context) == cuda::kSuccess && context &&
      driver.context_device(&current_device) == cuda::kSuccess && current_device == device)
    return context;
  static std::mutex* mutex = new std::mutex;  // both outlive exit handlers of the program
  static auto* primary = new std::map<cuda::Device, cuda::Context>;
  std::lock_guard lock(*mutex);
  cuda::Context& retained = (*primary)[device];
  if (!retained && driver.primary_retain(&retained, device) != cuda::kSuccess) retained = nullptr;
  return retained;
}

// Null: the driver does not know the memory. That of a pool (cuMemAllocAsync), and what is mapped by pages
// (cuMemMap), belongs to a device and to no context.
cuda::Context context_of(const cuda::Driver& driver, const void* pointer) {
  cuda::Context context = nullptr;
  int ordinal = -1;
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (driver.pointer_attribute(&context, cuda::kPointerContext, address) == cuda::kSuccess && context)
    return context;
  if (driver.pointer_attribute(&ordinal, cuda::kPointerOrdinal, address) != cuda::kSuccess || ordinal < 0)
    return nullptr;
  return context_on(driver, ordinal);
}

// Of host memory: whether the driver copies it into memory of its own first.
bool is_pageable(const cuda::Driver& driver, const void* pointer) {
  unsigned type = 0;
  return driver.pointer_attribute(&type, cuda::kPointerMemoryType,
                                  reinterpret_cast<std::uintptr_t>(pointer)) != cuda::kSuccess;
}

}  // namespace

bool is_driver_known() { return found.load(std::memory_order_relaxed) != nullptr; }

// What was the host's before there was a driver is not looked at again while the same is asked: to be a
// device's now, the program would have had to free it, load a driver, and get device memory at the same
// address. Of two threads that ask at once each has asked about what it leaves here.
bool is_device_memory(const void* one, const void* other) {
  static std::atomic<const void*> host_one{nullptr}, host_other{nullptr};
  if (!is_driver_known() && one == host_one.load(std::memory_order_relaxed) &&
      other == host_other.load(std::memory_order_relaxed))
    return false;
  if (const cuda::Driver* known = driver())
    return is_device_memory(*known, one) || is_device_memory(*known, other);
  host_one.store(one, std::memory_order_relaxed);
  host_other.store(other, std::memory_order_relaxed);
  return false;
}

HostCopy::HostCopy(Bytes bytes, const void* one, const void* other) {
  const cuda::Driver& known = *driver();
  context_ = context_of(known, one);
  if (!context_) context_ = context_of(known, other);
  const bool may_pin = context_ && bytes <= kMostPinned && known.context_push && known.context_pop &&
                       known.host_allocate && known.host_device_pointer;
  if (may_pin) {
    cuda::CurrentContext current(known, context_);
    const Bytes rounded = std::bit_ceil(std::max(bytes, Bytes{64} << 10));
    if (current.result() != cuda::kSuccess ||
        pinned_pool::take(known, context_, rounded, pinned_) != cuda::kSuccess)
      pinned_ = {};
  }
  if (!pinned_.host) plain_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  data_ = pinned_.host ? pinned_.host : plain_.get();
}

void HostCopy::give_back() {
  if (pinned_.host) pinned_pool::give_back(context_, pinned_);
}

bool copy_device_memory(void* to, const void* from, Bytes bytes) {
  const cuda::Driver& known = *driver();
  // "The DMA to final destination may not have completed" when a copy from pageable memory returns (CUDA
  // Driver API, "API synchronization behavior"), and streams that do not wait for the legacy default stream
  // would read what was there before.
  auto copy = [&] {
    return known.copy(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from), bytes) ==
               cuda::kSuccess &&
           (!is_pageable(known, from) || !known.stream_synchronize ||
            known.stream_synchronize(cuda::kStreamLegacy) == cuda::kSuccess);
  };
  // The progress thread has no context of its own, and the program's thread may have another device's.
  cuda::Context owner = context_of(known, to);
  if (!owner) owner = context_of(known, from);
  if (!owner || !known.context_push || !known.context_pop) return copy();
  cuda::CurrentContext current(known, owner);
  return current.result() == cuda::kSuccess && copy();
}

}  // namespace ddl
