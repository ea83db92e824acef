// The few functions of CUDA's header that our kernels use, for a host that compiles them: see kernels.cpp.
// Slow and simple on purpose: by the numbers that the bits stand for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

struct __half {
  unsigned short bits;
};

inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half half) { return half.bits; }

inline float __half2float(__half half) {
  const int exponent = half.bits >> 10 & 31, fraction = half.bits & 1023;
  const float sign = half.bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024.0f + static_cast<float>(fraction), exponent - 25)
                          : std::ldexp(static_cast<float>(fraction), -24));
}

// The nearest half: a multiple of its binade's unit, rounded to even by the host's rounding.
inline __half __float2half_rn(float value) {
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  auto half = [sign](unsigned bits) { return __half{static_cast<unsigned short>(sign | bits)}; };
  if (std::isnan(value)) return half(0x7e00);
  if (magnitude >= 65520.0f) return half(0x7c00);
  const int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // 1024 units and more have the implicit bit; 2048 carry over into the next exponent by themselves.
  return half(static_cast<unsigned>((exponent + 14) * 1024 + units));
}

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
