// How a thread's floating-point arithmetic rounds, and whether it takes subnormal numbers for zero, as far as
// a program may change it: <cfenv>'s rounding mode, and on x86 FTZ and DAZ of MXCSR. A thread has those of
// the one that made it, from then on. Its traps are its own.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace ddl {

/// In one word, so that it may be handed from thread to thread.
using Arithmetic = std::uint64_t;

#if defined(__SSE__)
inline constexpr unsigned kMxcsrZeros = 0x8040;  // FTZ and DAZ
#else
inline constexpr unsigned kMxcsrZeros = 0;
#endif

/// The calling thread's.
inline Arithmetic arithmetic() {
  const auto rounding = static_cast<Arithmetic>(std::fegetround()) << 32;
#if defined(__SSE__)
  return rounding | (_mm_getcsr() & kMxcsrZeros);
#else
  return rounding;
#endif
}

inline void set_arithmetic(Arithmetic to) {
  std::fesetround(static_cast<int>(to >> 32));
#if defined(__SSE__)
  _mm_setcsr((_mm_getcsr() & ~kMxcsrZeros) | (static_cast<unsigned>(to) & kMxcsrZeros));
#endif
}

}  // namespace ddl
