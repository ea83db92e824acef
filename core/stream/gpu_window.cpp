#include "core/stream/gpu_window.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/partition.hpp"
#include "core/base/random.hpp"

namespace ddl::gpu_window {
namespace {

constexpr Bytes kPage = 4096;
constexpr Bytes kAllocationUnit = Bytes{2} << 20;  // what CUDA exports whole
static_assert(DeviceCalls::kFlagBytes <= kPage);

using Sort = std::tuple<cuda::Context, Bytes, Bytes>;
Sort sort_of(const Own& own) { return {own.context, own.bytes, own.host_bytes}; }

struct Kept {
  std::mutex mutex;
  std::multimap<Sort, Own> given_back;
  std::map<std::pair<cuda::Context, std::uint64_t>, std::pair<DeviceWindow, std::shared_ptr<Region>>> opened;
  std::vector<Own> abandoned;
  std::map<cuda::Context, std::string> refused;  // what cannot be shown, once tried, is not allocated again
  std::uint64_t process = random_number();
};

Kept& kept() {
  static Kept* all = new Kept;  // outlives exit handlers of the program
  return *all;
}

void must(const cuda::Driver& driver, cuda::Result result, const char* what) {
  if (result != cuda::kSuccess)
    throw Error(fmt::format("CUDA refuses {}: {}", what, cuda::describe(driver, result)));
}

// False once the program has reset its device.
bool is_known(const cuda::Driver& driver, const DeviceWindow& window) {
  unsigned type = 0;
  return (!window.memory ||
          (driver.pointer_attribute(&type, cuda::kPointerMemoryType, window.memory) == cuda::kSuccess &&
           type == cuda::kMemoryTypeDevice)) &&
         driver.pointer_attribute(&type, cuda::kPointerMemoryType, window.flags_on_device) == cuda::kSuccess;
}

void pin(const cuda::Driver& driver, Region& region, DeviceWindow& window, Bytes behind = 0) {
  window.flags = region.at(kPage);
  must(driver,
       driver.host_register(window.flags, kPage + behind, cuda::kRegisterPortable | cuda::kRegisterDeviceMap),
       "to pin shared memory");
  must(driver, driver.host_device_pointer(&window.flags_on_device, window.flags, 0),
       "the address of a page of flags");
}

// Makes what others need to open it.
void show(const cuda::Driver& driver, Own& own) {
  own.endpoint.of_process = kept().process;
  own.endpoint.process = ::getpid();
  own.endpoint.nonce = random_number();
  own.endpoint.context = own.context;
  if (own.window.memory)
    must(driver, driver.ipc_get_handle(&own.endpoint.handle, own.window.memory),
         "to share memory with other processes");
  own.flags = std::make_shared<Region>(Region::create(0, kPage + own.host_bytes, own.endpoint.nonce));
  if (!own.flags->reserve(kPage, kPage + own.host_bytes)) throw Error("no shared memory left");
  own.endpoint.flags_file = own.flags->fd();
  pin(driver, *own.flags, own.window, own.host_bytes);
  own.endpoint.inside = own.window;
  own.endpoint.inside_host = own.host = own.flags->at(2 * kPage);
  own.host_on_device = own.window.flags_on_device + kPage;
}

bool used_before(const cuda::Driver& driver, Own& own) {
  std::lock_guard lock(kept().mutex);
  for (const Sort sort = sort_of(own);;) {
    auto found = kept().given_back.find(sort);
    if (found == kept().given_back.end()) return false;
    own = std::move(found->second);
    kept().given_back.erase(found);
    if (is_known(driver, own.window)) return true;
  }
}

}  // namespace

Own take(const cuda::Driver& driver, cuda::Context context, Bytes bytes) {
  if (!driver.ipc_get_handle || !driver.ipc_open_handle || !driver.host_register)
    throw Error("the CUDA driver has no IPC");
  cuda::CurrentContext current(driver, context);
  must(driver, current.result(), "its context");
  Own own;
  own.bytes = bytes;
  own.context = context;
  if (used_before(driver, own)) return own;
  {
    std::lock_guard lock(kept().mutex);
    if (auto refused = kept().refused.find(context); refused != kept().refused.end())
      throw Error(refused->second);
  }
  must(driver, driver.allocate(&own.window.memory, round_up(bytes, kAllocationUnit)), "memory for staging");
  try {
    show(driver, own);
    own.raiser = ReduceKernels::new_raiser();
  } catch (const std::exception& error) {  // the memory is left: a free may wait for everything
    std::lock_guard lock(kept().mutex);
    kept().refused[context] = error.what();
    throw;
  }
  return own;
}

Own take_on_host(const cuda::Driver& driver, cuda::Context context, Bytes bytes) {
  if (!driver.host_register) throw Error("the CUDA driver cannot pin shared memory");
  cuda::CurrentContext current(driver, context);
  must(driver, current.result(), "its context");
  Own own;
  own.host_bytes = bytes;
  own.context = context;
  if (!used_before(driver, own)) show(driver, own);
  return own;
}

void give_back(Own own) {
  std::lock_guard lock(kept().mutex);
  const Sort sort = sort_of(own);
  kept().given_back.insert({sort, std::move(own)});
}

void abandon(Own own) {
  std::lock_guard lock(kept().mutex);
  kept().abandoned.push_back(std::move(own));
}

DeviceWindow open(const cuda::Driver& driver, cuda::Context context, const ExportedWindow& endpoint) {
  cuda::CurrentContext current(driver, context);
  must(driver, current.result(), "its context");
  if (endpoint.of_process == kept().process) {
    // Memory of another context, even of the same GPU, is out of reach.
    if (context != endpoint.context)
      throw Error("ranks of one process are on different GPUs or in different CUDA contexts");
    return endpoint.inside;
  }
  std::lock_guard lock(kept().mutex);
  auto& [window, region] = kept().opened[{context, endpoint.nonce}];
  if (region && is_known(driver, window)) return window;
  region = nullptr;
  std::optional<Region> attached = Region::attach(endpoint.process, endpoint.flags_file, endpoint.nonce);
  if (!attached) throw Error("the flags of another rank cannot be opened");
  must(driver, driver.ipc_open_handle(&window.memory, endpoint.handle, cuda::kIpcLazyPeerAccess),
       "to open the memory of another rank");
  auto opened = std::make_shared<Region>(std::move(*attached));
  pin(driver, *opened, window);
  region = std::move(opened);
  return window;
}

std::shared_ptr<std::byte> open_host(const ExportedWindow& endpoint) {
  if (endpoint.of_process == kept().process) return {std::shared_ptr<void>(), endpoint.inside_host};
  std::optional<Region> attached = Region::attach(endpoint.process, endpoint.flags_file, endpoint.nonce);
  if (!attached) throw Error("the memory of another rank cannot be opened");
  auto opened = std::make_shared<Region>(std::move(*attached));
  return {opened, opened->at(2 * kPage)};
}

}  // namespace ddl::gpu_window
