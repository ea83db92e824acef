#include "core/transport/region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/partition.hpp"

namespace ddl {
namespace {

std::atomic<Bytes> mapped{0};

}  // namespace

Bytes Region::all_mapped() { return mapped.load(std::memory_order_relaxed); }

Region Region::create(int local_ranks, Bytes staging, std::uint64_t nonce) {
  Bytes bytes = round_up(staging_offset(local_ranks) + staging, 4096);
  rlimit most{};  // a longer file would end the process by a signal
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes)
    throw Error(fmt::format("this process may make files of {} bytes at most, and shared memory of {} is one",
                            most.rlim_cur, bytes),
                "ranks of one host exchange data through it",
                "raise `ulimit -f`, set DDL_STAGING_BYTES lower or DDL_ENABLE=0");
  int fd = ::memfd_create("ddl-region", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0 || ::fchmod(fd, 0600) != 0) {
    int cause = errno;
    if (fd >= 0) ::close(fd);
    throw Error(fmt::format("cannot make {} bytes of shared memory: {}", bytes, std::strerror(cause)),
                "ranks of one host exchange data through it", "set DDL_STAGING_BYTES lower or DDL_ENABLE=0");
  }
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    ::close(fd);
    throw Error(fmt::format("cannot map {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  }
  Region region(static_cast<std::byte*>(base), bytes, fd, ::getpid());
  if (!region.reserve(0, region.staging_offset(local_ranks)))
    throw Error("no memory left for mailboxes", "ranks of one host exchange data through them",
                "set DDL_ENABLE=0");
  region.head().nonce = nonce;
  region.head().base = reinterpret_cast<std::uintptr_t>(base);
  region.head().activity.pid = ::getpid();
  return region;
}

namespace {

int open_of(int pid, int fd, int flags) {
  return ::open(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), flags | O_CLOEXEC);
}

}  // namespace

std::optional<Region> Region::attach(int pid, int fd, std::uint64_t nonce, int bell) {
  int mine = open_of(pid, fd, O_RDWR);
  if (mine < 0) return std::nullopt;
  struct stat info {};
  if (::fstat(mine, &info) != 0 || info.st_size < static_cast<off_t>(round_head())) {
    ::close(mine);
    return std::nullopt;
  }
  Bytes bytes = static_cast<Bytes>(info.st_size);
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mine, 0);
  ::close(mine);
  if (base == MAP_FAILED) return std::nullopt;
  Region region(static_cast<std::byte*>(base), bytes, -1, pid);
  if (region.head().nonce != nonce) return std::nullopt;
  // Open for both: a pipe that nobody reads any more would kill who rings.
  if (bell >= 0) region.bell_to_ring_ = open_of(pid, bell, O_RDWR | O_NONBLOCK);
  if (bell >= 0 && !region.has_bell()) return std::nullopt;
  return region;
}

Region::Region(std::byte* base, Bytes bytes, int fd, int pid)
    : base_(base), bytes_(bytes), fd_(fd), pid_(pid) {
  mapped.fetch_add(bytes, std::memory_order_relaxed);
}

Region::Region(Region&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      bytes_(other.bytes_),
      fd_(std::exchange(other.fd_, -1)),
      pid_(other.pid_),
      bell_(std::exchange(other.bell_, -1)),
      bell_to_ring_(std::exchange(other.bell_to_ring_, -1)) {}

Region::~Region() {
  if (base_) {
    ::munmap(base_, bytes_);
    mapped.fetch_sub(bytes_, std::memory_order_relaxed);
  }
  for (int fd : {fd_, bell_, bell_to_ring_})
    if (fd >= 0) ::close(fd);
}

void Region::open_bell() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)),
                "ranks of one host wake each other through it", "raise the limit on open files (ulimit -n)");
  bell_ = ends[0];
  bell_to_ring_ = ends[1];
}

void Region::ring_bell() {
  // A full pipe rings already.
  [[maybe_unused]] auto written = ::write(bell_to_ring_, "", 1);
}

void Region::silence_bell() {
  char rings[64];
  while (::read(bell_, rings, sizeof(rings)) == static_cast<ssize_t>(sizeof(rings))) continue;
}

namespace {

// process_vm_readv or its counterpart.
template <class Copy>
bool copy_all(Copy copy, int pid, const std::byte* here, const std::byte* there, Bytes bytes) {
  for (Bytes done = 0; done < bytes;) {
    const iovec own{const_cast<std::byte*>(here) + done, bytes - done};
    const iovec others{const_cast<std::byte*>(there) + done, bytes - done};
    const ssize_t copied = copy(pid, &own, 1, &others, 1, 0);
    if (copied <= 0) return false;
    done += static_cast<Bytes>(copied);
  }
  return true;
}

}  // namespace

bool Region::read_owner(std::byte* into, const std::byte* from, Bytes bytes) const {
  return copy_all(::process_vm_readv, pid_, into, from, bytes);
}

bool Region::write_owner(std::byte* into, const std::byte* from, Bytes bytes) const {
  return copy_all(::process_vm_writev, pid_, from, into, bytes);
}

bool Region::can_read_owner() const {
  std::uint64_t nonce = 0;
  const auto* there = reinterpret_cast<const std::byte*>(head().base) + offsetof(RegionHead, nonce);
  return read_owner(reinterpret_cast<std::byte*>(&nonce), there, sizeof(nonce)) && nonce == head().nonce;
}

void Region::populate(Bytes offset, Bytes bytes) {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;
#endif
  Bytes first = offset / 4096 * 4096, end = std::min(round_up(offset + bytes, 4096), bytes_);
  if (first < end) static_cast<void>(::madvise(base_ + first, end - first, MADV_POPULATE_WRITE));
}

void Region::prefetch(Bytes offset, Bytes bytes) const {
  for (Bytes line = offset; line < offset + bytes; line += kCacheLine) __builtin_prefetch(base_ + line);
}

bool Region::reserve(Bytes offset, Bytes bytes) {
  if (offset + bytes > bytes_) return false;
  int result = 0;
  do {
    result = ::fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);  // a profiler's timer, for instance
  return result == 0;
}

}  // namespace ddl
