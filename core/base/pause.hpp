#pragma once

#include <sched.h>

#include "core/base/clock.hpp"

namespace ddl {

/// For loops that wait for another core.
inline void pause_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Gives the core to who wants it; false where somebody has had it for a slice of the scheduler.
inline bool yield_a_moment() {
  constexpr Nanoseconds kSlice = 500'000;  // longer than an interrupt
  const Nanoseconds before = now();
  ::sched_yield();
  return now() - before <= kSlice;
}

}  // namespace ddl
