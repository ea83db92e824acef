#pragma once

#include <cstddef>

#include "core/base/partition.hpp"

namespace ddl {

/// Hands down lines that this core has just written and another one reads next, to the cache that they share:
/// from there an Intel core reads them sooner (CLDEMOTE; to others, and to older ones, it says nothing). Of
/// up to a kilobyte: each line takes 8 ns if there are many.
inline void hand_down(const void* first, Bytes bytes) {
#if defined(__x86_64__)
  constexpr Bytes kMost = 1024;
  if (bytes > kMost) return;
  const auto* line = static_cast<const std::byte*>(first);
  for (Bytes at = 0; at < bytes; at += kCacheLine)
    asm volatile(".byte 0x0f, 0x1c, 0x00" ::"a"(line + at) : "memory");
#else
  static_cast<void>(first), static_cast<void>(bytes);
#endif
}

}  // namespace ddl
