#include "tests/support/fake_cuda/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace fake_cuda {
namespace {

struct Areas {
  std::mutex mutex;
  std::map<DevicePointer, std::shared_ptr<Area>> by_begin;
  std::map<Device, std::size_t> used;
  std::uint64_t last_number = 0;
};

Areas& areas() {
  static Areas* all = new Areas;  // never taken down: streams outlive main
  return *all;
}

constexpr std::size_t kPage = 4096;

std::size_t device_limit() {
  const char* text = std::getenv("FAKE_CUDA_MEMORY");
  return text ? std::strtoull(text, nullptr, 10) : std::size_t{16} << 30;
}

std::shared_ptr<Area> map_file(int file, std::size_t bytes, Device device) {
  auto area = std::make_shared<Area>();
  area->file = file;
  area->device = device;
  area->bytes = bytes;
  area->mapped_bytes = (bytes + kPage - 1) / kPage * kPage;
  void* outside = ::mmap(nullptr, area->mapped_bytes, PROT_NONE, MAP_SHARED, file, 0);
  if (outside != MAP_FAILED) area->begin = reinterpret_cast<DevicePointer>(outside);
  void* inside = ::mmap(nullptr, area->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (inside != MAP_FAILED) area->inside = static_cast<std::byte*>(inside);
  return area->begin && area->inside ? area : nullptr;
}

void add(const std::shared_ptr<Area>& area) {
  area->number = ++areas().last_number;
  areas().by_begin[area->begin] = area;
}

template <typename Accept>
std::shared_ptr<Area> take_out(DevicePointer begin, Accept accept) {
  std::lock_guard lock(areas().mutex);
  auto found = areas().by_begin.find(begin);
  if (found == areas().by_begin.end() || !accept(*found->second)) return nullptr;
  std::shared_ptr<Area> area = found->second;
  areas().by_begin.erase(found);
  if (area->file >= 0 && !area->imported) areas().used[area->device] -= area->mapped_bytes;
  return area;
}

// What an IPC handle holds: the memory file of a living process.
struct Ticket {
  pid_t process;
  int file;
  std::size_t bytes;
};
static_assert(sizeof(Ticket) <= sizeof(IpcHandle));

}  // namespace

Area::~Area() {
  if (begin && file >= 0) ::munmap(reinterpret_cast<void*>(begin), mapped_bytes);
  if (inside && !registered) ::munmap(inside, mapped_bytes);
  if (file >= 0) ::close(file);
}

DevicePointer allocate_device(Device device, std::size_t bytes, bool of_pool) {
  std::size_t mapped = (bytes + kPage - 1) / kPage * kPage;
  std::lock_guard lock(areas().mutex);
  if (areas().used[device] + mapped > device_limit()) return 0;
  int file = ::memfd_create("fake device memory", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(mapped)) != 0) return 0;
  std::shared_ptr<Area> area = map_file(file, bytes, device);
  if (!area) return 0;
  areas().used[device] += mapped;
  area->of_pool = of_pool;
  add(area);
  return area->begin;
}

void* allocate_pinned(std::size_t bytes) {
  auto area = std::make_shared<Area>();
  area->bytes = bytes;
  area->mapped_bytes = (bytes + kPage - 1) / kPage * kPage;
  void* memory =
      ::mmap(nullptr, area->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  area->inside = static_cast<std::byte*>(memory);
  area->begin = reinterpret_cast<DevicePointer>(memory);
  std::lock_guard lock(areas().mutex);
  add(area);
  return memory;
}

bool free_device(DevicePointer pointer) {
  return take_out(pointer, [](const Area& area) { return area.file >= 0 && !area.imported; }) != nullptr;
}

bool close_device(DevicePointer pointer) {
  return take_out(pointer, [](const Area& area) { return area.imported; }) != nullptr;
}

void forget_all(Device device) {
  std::lock_guard lock(areas().mutex);
  std::erase_if(areas().by_begin, [device](const auto& known) {
    return known.second->file >= 0 && known.second->device == device;
  });
  areas().used[device] = 0;
}

// Whole pages, as the real one pins them; an overlap with another registration is refused.
bool register_pinned(void* pointer, std::size_t bytes) {
  auto begin = reinterpret_cast<DevicePointer>(pointer) / kPage * kPage;
  auto end = (reinterpret_cast<DevicePointer>(pointer) + bytes + kPage - 1) / kPage * kPage;
  std::lock_guard lock(areas().mutex);
  for (const auto& [at, area] : areas().by_begin)
    if (at < end && begin < at + area->mapped_bytes) return false;
  auto area = std::make_shared<Area>();
  area->registered = true;
  area->begin = begin;
  area->inside = reinterpret_cast<std::byte*>(begin);
  area->bytes = area->mapped_bytes = end - begin;
  add(area);
  return true;
}

bool unregister_pinned(void* pointer) {
  return take_out(reinterpret_cast<DevicePointer>(pointer),
                  [](const Area& area) { return area.registered; }) != nullptr;
}

bool free_pinned(void* pointer) {
  return take_out(reinterpret_cast<DevicePointer>(pointer),
                  [](const Area& area) { return area.file < 0 && !area.registered; }) != nullptr;
}

bool export_device(DevicePointer pointer, IpcHandle& handle) {
  std::lock_guard lock(areas().mutex);
  auto found = areas().by_begin.find(pointer);
  if (found == areas().by_begin.end() || found->second->file < 0 || found->second->imported) return false;
  Ticket ticket{::getpid(), found->second->file, found->second->bytes};
  std::memset(&handle, 0, sizeof handle);
  std::memcpy(handle.reserved, &ticket, sizeof ticket);
  return true;
}

DevicePointer import_device(const IpcHandle& handle, Device device) {
  Ticket ticket;
  std::memcpy(&ticket, handle.reserved, sizeof ticket);
  if (ticket.process == ::getpid()) return 0;  // as the real driver: not in the process that exported it
  std::string path = "/proc/" + std::to_string(ticket.process) + "/fd/" + std::to_string(ticket.file);
  int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return 0;
  std::shared_ptr<Area> area = map_file(file, ticket.bytes, device);
  if (!area) return 0;
  area->imported = true;
  std::lock_guard lock(areas().mutex);
  add(area);
  return area->begin;
}

std::optional<Range> resolve(DevicePointer pointer, std::size_t bytes, Kind kind) {
  std::lock_guard lock(areas().mutex);
  auto after = areas().by_begin.upper_bound(pointer);
  if (after != areas().by_begin.begin()) {
    const std::shared_ptr<Area>& area = std::prev(after)->second;
    if (pointer < area->begin + area->mapped_bytes) {
      bool wanted = kind == Kind::kAny || (kind == Kind::kDevice) == (area->file >= 0);
      if (!wanted || pointer - area->begin + bytes > area->bytes) return std::nullopt;
      return Range{area->inside + (pointer - area->begin), area};
    }
  }
  if (kind != Kind::kAny) return std::nullopt;
  return Range{reinterpret_cast<std::byte*>(pointer), nullptr};
}

}  // namespace fake_cuda
