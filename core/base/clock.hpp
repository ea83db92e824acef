#pragma once

#include <chrono>

#include "core/base/types.hpp"

namespace ddl {

/// Monotonic time; comparable between the processes of one host.
inline Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Grows by one or more in a nanosecond, and is cheaper to read (10 ns instead of 24 with x86's counter).
/// Threads on different cores may disagree.
inline std::uint64_t quick_ticks() {
#ifdef __x86_64__
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(now());
#endif
}

inline Nanoseconds nanoseconds_of(double seconds) { return static_cast<Nanoseconds>(seconds * 1e9); }

}  // namespace ddl
