#include "core/device/pinned_pool.hpp"

#include <map>
#include <mutex>

namespace ddl::pinned_pool {
namespace {

using Sort = std::pair<cuda::Context, Bytes>;

struct Pool {
  std::mutex mutex;
  std::multimap<Sort, std::byte*> blocks;
};

Pool& pool() {
  static Pool* the_pool = new Pool;  // outlives exit handlers of the program
  return *the_pool;
}

std::byte* used_before(const Sort& sort) {
  std::lock_guard lock(pool().mutex);
  auto found = pool().blocks.find(sort);
  if (found == pool().blocks.end()) return nullptr;
  std::byte* host = found->second;
  pool().blocks.erase(found);
  return host;
}

}  // namespace

cuda::Result take(const cuda::Driver& driver, cuda::Context context, Bytes bytes, Block& taken) {
  taken.bytes = bytes;
  // Where the program has reset its device, what was pinned before is known no more.
  while ((taken.host = used_before({context, bytes})))
    if (driver.host_device_pointer(&taken.device, taken.host, 0) == cuda::kSuccess) return cuda::kSuccess;
  void* memory = nullptr;
  cuda::Result result = driver.host_allocate(&memory, bytes, cuda::kHostPortable | cuda::kHostDeviceMap);
  if (result != cuda::kSuccess) return result;
  taken.host = static_cast<std::byte*>(memory);
  result = driver.host_device_pointer(&taken.device, memory, 0);
  if (result == cuda::kSuccess) return result;
  give_back(context, taken);
  taken.host = nullptr;
  return result;
}

void give_back(cuda::Context context, const Block& block) {
  std::lock_guard lock(pool().mutex);
  pool().blocks.insert({{context, block.bytes}, block.host});
}

}  // namespace ddl::pinned_pool
