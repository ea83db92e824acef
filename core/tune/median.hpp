#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

/// The upper one of an even number of times; 0 of none.
inline Nanoseconds median(std::span<const Nanoseconds> times) {
  if (times.empty()) return 0;
  std::vector<Nanoseconds> sorted(times.begin(), times.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace ddl
