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

}  // namespace ddl
