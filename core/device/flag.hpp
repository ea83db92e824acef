// Flags by which streams and threads of the host wait for each other: numbers in pinned memory that count up.
// Thread safety: all.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/device/cuda_driver.hpp"

namespace ddl {

/// Flags are on cache lines of their own.
inline constexpr std::size_t kFlagStride = 64;

/// Compared as streams compare, so that it may wrap.
struct Flag {
  std::uint32_t* at = nullptr;
  cuda::DevicePointer on_device = 0;
  bool reached(std::uint32_t value) const { return static_cast<std::int32_t>(get() - value) >= 0; }
  std::uint32_t get() const { return std::atomic_ref(*at).load(std::memory_order_acquire); }
  void set(std::uint32_t value) const { std::atomic_ref(*at).store(value, std::memory_order_release); }
  /// Never back, where others raise it too.
  void raise(std::uint32_t value) const {
    for (std::uint32_t before = get(); static_cast<std::int32_t>(before - value) < 0;)
      if (std::atomic_ref(*at).compare_exchange_weak(before, value, std::memory_order_acq_rel)) return;
  }
};

/// Yields at first, then sleeps longer and longer, up to a fifth of a millisecond: a stream may be behind a
/// kernel of seconds.
class Patience {
 public:
  void wait() {
    if (++rounds_ <= kYields) {
      ::sched_yield();
      return;
    }
    timespec pause = {0, std::min<long>(10'000L * (1 + (rounds_ - kYields) / 16), 200'000L)};
    ::nanosleep(&pause, nullptr);
  }

 private:
  static constexpr int kYields = 200;
  int rounds_ = 0;
};

}  // namespace ddl
