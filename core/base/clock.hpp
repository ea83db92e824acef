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

inline Nanoseconds nanoseconds_of(double seconds) { return static_cast<Nanoseconds>(seconds * 1e9); }

}  // namespace ddl
