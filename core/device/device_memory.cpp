#include "core/device/device_memory.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>

#include "core/base/clock.hpp"

namespace ddl {
namespace {

// From the CUDA driver API, which is stable: CUresult cuPointerGetAttribute(void*, CUpointer_attribute,
// CUdeviceptr) and CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t), the latter for any pair of pointers
// of the unified address space.
using GetAttribute = int (*)(void* data, int attribute, std::uintptr_t pointer);
using Copy = int (*)(std::uintptr_t to, std::uintptr_t from, std::size_t bytes);
constexpr int kMemoryType = 2;         // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int kIsManaged = 8;          // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr unsigned kDeviceMemory = 2;  // CU_MEMORYTYPE_DEVICE

struct Driver {
  GetAttribute get_attribute = nullptr;
  Copy copy = nullptr;
};

Driver find_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return {};
  return {reinterpret_cast<GetAttribute>(::dlsym(library, "cuPointerGetAttribute")),
          reinterpret_cast<Copy>(::dlsym(library, "cuMemcpy"))};
}

// A program may load CUDA at any time, so "not there" is asked again: but not within ten microseconds, in
// which nothing can be loaded, and only when another object has been loaded since, which dl_iterate_phdr
// counts.
constexpr Nanoseconds kAskAgain = 10'000;

const Driver* driver(Nanoseconds when) {
  static std::atomic<const Driver*> found{nullptr};
  if (const Driver* known = found.load(std::memory_order_acquire)) return known;
  static std::atomic<Nanoseconds> asked{-kAskAgain};
  if (when - asked.load(std::memory_order_acquire) < kAskAgain) return nullptr;
  static std::atomic<unsigned long long> objects_seen{0};
  unsigned long long loaded = 0;
  auto first = [](dl_phdr_info* info, std::size_t, void* count) {
    *static_cast<unsigned long long*>(count) = info->dlpi_adds;
    return 1;
  };
  ::dl_iterate_phdr(first, &loaded);
  if (objects_seen.load(std::memory_order_acquire) != loaded) {
    Driver driver = find_driver();
    if (driver.get_attribute && driver.copy) {
      found.store(new Driver(driver), std::memory_order_release);  // or twice when two threads race
      return found.load(std::memory_order_acquire);
    }
  }
  // Only now: another thread must not take "not yet" for "no".
  objects_seen.store(loaded, std::memory_order_release);
  asked.store(when, std::memory_order_release);
  return nullptr;
}

bool is_device_memory(const Driver& cuda, const void* pointer) {
  unsigned type = 0, managed = 0;
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (cuda.get_attribute(&type, kMemoryType, address) != 0)
    return false;  // unknown to CUDA: plain host memory
  if (type != kDeviceMemory) return false;
  return cuda.get_attribute(&managed, kIsManaged, address) != 0 || managed == 0;
}

}  // namespace

bool is_device_memory(const void* one, const void* other, Nanoseconds when) {
  const Driver* cuda = driver(when);
  return cuda && (is_device_memory(*cuda, one) || is_device_memory(*cuda, other));
}

bool copy_device_memory(void* to, const void* from, Bytes bytes) {
  return driver(now())->copy(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from),
                             bytes) == 0;
}

}  // namespace ddl
