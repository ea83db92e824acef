// Device pointers in MPI calls: recognised through a CUDA driver that the program has already loaded, and
// staged through host memory; the CPU kernels never touch them. Where no driver is loaded every pointer is
// host memory and this costs one branch. Thread safety: all.
#pragma once

#include <memory>
#include <utility>

#include "core/base/types.hpp"
#include "core/device/pinned_pool.hpp"

namespace ddl {

/// Whether the program is known to have a driver. It may have loaded one since is_device_memory() looked.
bool is_driver_known();

/// Whether one of two pointers is memory that the host cannot read.
bool is_device_memory(const void* one, const void* other);

/// Copies between device and host, either way, and waits for it; false when the driver reports an error.
bool copy_device_memory(void* to, const void* from, Bytes bytes);

/// Host memory for a copy of what lies on a device, contents undefined: pinned where the driver gives that,
/// from which copies are several times as fast, and used again.
class HostCopy {
 public:
  HostCopy() = default;
  /// `one` or `other` is device memory.
  HostCopy(Bytes bytes, const void* one, const void* other);
  ~HostCopy() { give_back(); }
  HostCopy(HostCopy&& other) noexcept { *this = std::move(other); }
  HostCopy& operator=(HostCopy&& other) noexcept {
    if (this == &other) return *this;
    give_back();
    data_ = std::exchange(other.data_, nullptr);
    pinned_ = std::exchange(other.pinned_, {});
    context_ = other.context_;
    plain_ = std::move(other.plain_);
    return *this;
  }
  std::byte* data() const { return data_; }
  bool empty() const { return !data_; }

 private:
  void give_back();

  std::byte* data_ = nullptr;
  pinned_pool::Block pinned_;
  cuda::Context context_ = nullptr;
  std::unique_ptr<std::byte[]> plain_;
};

}  // namespace ddl
