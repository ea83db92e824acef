// How float32 and float64 travel as a narrower type, and come back. Part of kernels.inl, included in its
// namespace, under its rules.

// ---- float32 and float64 that travel as a narrower type ----

/// A float64 is rounded to float32 first; then both are rounded to nearest even.
template <class T, class Format>
void narrow(void* to, const void* from, Elements count) {
  auto* wide = static_cast<const Loose<T>*>(from);
  if constexpr (std::is_same_v<T, float>) {
    Format::round(to, wide, count);
  } else {
    constexpr Elements kBlock = kBlockBytes / sizeof(float);
    Float block[kBlock];
    for (Elements at = 0; at < count; at += kBlock) {
      Elements n = count - at < kBlock ? count - at : kBlock;
#pragma GCC ivdep
      for (Elements i = 0; i < n; ++i) block[i].value = static_cast<float>(wide[at + i].value);
      Format::round(static_cast<Bits16*>(to) + at, block, n);
    }
  }
}

template <class T, class Format>
void widen(void* to, const void* from, Elements count) {
  auto* wide = static_cast<Loose<T>*>(to);
  if constexpr (std::is_same_v<T, float>) {
    Format::expand(wide, from, count);
  } else {
    constexpr Elements kBlock = kBlockBytes / sizeof(float);
    Float block[kBlock];
    for (Elements at = 0; at < count; at += kBlock) {
      Elements n = count - at < kBlock ? count - at : kBlock;
      Format::expand(block, static_cast<const Bits16*>(from) + at, n);
#pragma GCC ivdep
      for (Elements i = 0; i < n; ++i) wide[at + i].value = static_cast<T>(block[i].value);
    }
  }
}

// ---- float32 and float64 in 8 bits ----
//
// Per line of elements: scale k + 128 (1 byte), elements q (1 byte each). An element is q 2^k, or one of the
// codes below. k follows from the largest magnitude: as small as can be without q going beyond kMostQ. Powers
// of two divide and multiply without rounding, so that what was widened has the same k and q again.

constexpr int kMostQ = 125, kInfinity = 126, kNan = 127;
constexpr int kLeastScale = -106;  // what is below half of it becomes zero

int scale_for(std::uint32_t magnitude) {
  constexpr std::uint32_t kTooLarge = 0x7b0000;  // 125.5 / 64, the fraction: it would round to 126
  int k = static_cast<int>(magnitude >> 23) - 127 - 6 + ((magnitude & 0x7fffff) >= kTooLarge ? 1 : 0);
  return k < kLeastScale ? kLeastScale : k;
}

float power_of_two(int k) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(k + 127) << 23); }

std::uint32_t magnitude_of(float value) { return __builtin_bit_cast(std::uint32_t, value) & 0x7fffffff; }

/// To nearest even, of numbers far below 2^22.
int rounded(float value) {
  constexpr float kUnit = 0x1.8p23F;  // whose last place is 1
  return static_cast<int>(__builtin_bit_cast(std::uint32_t, value + kUnit) -
                          __builtin_bit_cast(std::uint32_t, kUnit));
}

/// A line with infinities or NaNs, whose scale is that of its numbers.
[[gnu::noinline]] void narrow_special(Loose<std::int8_t>* to, const float* from, Elements count) {
  std::uint32_t most = 0;
  for (Elements i = 0; i < count; ++i)
    if (std::uint32_t one = magnitude_of(from[i]); one < kExponent && one > most) most = one;
  const int k = scale_for(most);
  to[0].value = static_cast<std::int8_t>(k + 128);
  for (Elements i = 0; i < count; ++i) {
    const std::uint32_t one = magnitude_of(from[i]);
    const int q = one > kExponent    ? kNan
                  : one == kExponent ? (from[i] < 0 ? -kInfinity : kInfinity)
                                     : rounded(from[i] * power_of_two(-k));
    to[1 + i].value = static_cast<std::int8_t>(q);
  }
}

inline void narrow_line(Loose<std::int8_t>* to, const float* from, Elements count) {
  std::uint32_t most = 0;
  for (Elements i = 0; i < count; ++i) {
    const std::uint32_t one = magnitude_of(from[i]);
    most = one > most ? one : most;
  }
  if (most >= kExponent) return narrow_special(to, from, count);
  const int k = scale_for(most);
  const float inverse = power_of_two(-k);
  to[0].value = static_cast<std::int8_t>(k + 128);
  for (Elements i = 0; i < count; ++i) to[1 + i].value = static_cast<std::int8_t>(rounded(from[i] * inverse));
}

inline void widen_line(float* to, const Loose<std::int8_t>* from, Elements count) {
  const int k = static_cast<std::uint8_t>(from[0].value) - 128;
  const float scale = power_of_two(k);
  int most = 0;
  for (Elements i = 0; i < count; ++i) {
    const int q = from[1 + i].value, size = q < 0 ? -q : q;
    most = size > most ? size : most;
    to[i] = static_cast<float>(q) * scale;
  }
  if (most <= kMostQ) return;
  for (Elements i = 0; i < count; ++i) {
    const int q = from[1 + i].value;
    if (q == kNan) to[i] = __builtin_nanf("");
    if (q == kInfinity || q == -kInfinity) to[i] = q < 0 ? -__builtin_inff() : __builtin_inff();
  }
}

// The same for whole lines: 16 float32, or 8 that were float64.
#if defined(__AVX2__)
inline __m256i magnitudes(__m256 values) {
  return _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0x7fffffff));
}

inline std::uint32_t largest(__m256i numbers) {
  __m128i four = _mm_max_epu32(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1))));
}

inline __m128i sixteen_bits(__m256i numbers) {
  return _mm_packs_epi32(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
}

inline bool has_codes(__m128i bytes) {
  return _mm_movemask_epi8(_mm_cmpgt_epi8(_mm_abs_epi8(bytes), _mm_set1_epi8(kMostQ))) != 0;
}

inline __m256 widened(__m128i bytes, __m256 scale) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), scale);
}

inline void narrow_8(Loose<std::int8_t>* to, const float* from) {
  const __m256 values = _mm256_loadu_ps(from);
  const std::uint32_t most = largest(magnitudes(values));
  if (most >= kExponent) return narrow_special(to, from, 8);
  const int k = scale_for(most);
  const __m256i q = _mm256_cvtps_epi32(_mm256_mul_ps(values, _mm256_set1_ps(power_of_two(-k))));
  to[0].value = static_cast<std::int8_t>(k + 128);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 1), _mm_packs_epi16(sixteen_bits(q), sixteen_bits(q)));
}

inline void widen_8(float* to, const Loose<std::int8_t>* from) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + 1));
  if (has_codes(bytes)) return widen_line(to, from, 8);
  const __m256 scale = _mm256_set1_ps(power_of_two(static_cast<std::uint8_t>(from[0].value) - 128));
  _mm256_storeu_ps(to, widened(bytes, scale));
}

inline void narrow_16(Loose<std::int8_t>* to, const float* from) {
  const __m256 low = _mm256_loadu_ps(from), high = _mm256_loadu_ps(from + 8);
  const std::uint32_t most = largest(_mm256_max_epu32(magnitudes(low), magnitudes(high)));
  if (most >= kExponent) return narrow_special(to, from, 16);
  const int k = scale_for(most);
  to[0].value = static_cast<std::int8_t>(k + 128);
  const __m256 inverse = _mm256_set1_ps(power_of_two(-k));
  const __m128i bytes = _mm_packs_epi16(sixteen_bits(_mm256_cvtps_epi32(_mm256_mul_ps(low, inverse))),
                                        sixteen_bits(_mm256_cvtps_epi32(_mm256_mul_ps(high, inverse))));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 1), bytes);
}

inline void widen_16(float* to, const Loose<std::int8_t>* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 1));
  if (has_codes(bytes)) return widen_line(to, from, 16);
  const __m256 scale = _mm256_set1_ps(power_of_two(static_cast<std::uint8_t>(from[0].value) - 128));
  _mm256_storeu_ps(to, widened(bytes, scale));
  _mm256_storeu_ps(to + 8, widened(_mm_srli_si128(bytes, 8), scale));
}
#else
inline void narrow_8(Loose<std::int8_t>* to, const float* from) { narrow_line(to, from, 8); }
inline void widen_8(float* to, const Loose<std::int8_t>* from) { widen_line(to, from, 8); }
inline void narrow_16(Loose<std::int8_t>* to, const float* from) { narrow_line(to, from, 16); }
inline void widen_16(float* to, const Loose<std::int8_t>* from) { widen_line(to, from, 16); }
#endif

template <class T>
void narrow_scaled(void* to, const void* from, Elements count) {
  constexpr Elements kLineOf = 64 / sizeof(T);
  auto* wide = static_cast<const Loose<T>*>(from);
  auto* bytes = static_cast<Loose<std::int8_t>*>(to);
  alignas(64) float line[kLineOf];
  for (; count >= kLineOf; count -= kLineOf, wide += kLineOf, bytes += kLineOf + 1) {
    if constexpr (std::is_same_v<T, float>) {
      __builtin_memcpy(line, wide, sizeof(line));
      narrow_16(bytes, line);
    } else {
      for (Elements i = 0; i < kLineOf; ++i) line[i] = static_cast<float>(wide[i].value);
      narrow_8(bytes, line);
    }
  }
  for (Elements i = 0; i < count; ++i) line[i] = static_cast<float>(wide[i].value);
  if (count > 0) narrow_line(bytes, line, count);
}

template <class T>
void widen_scaled(void* to, const void* from, Elements count) {
  constexpr Elements kLineOf = 64 / sizeof(T);
  auto* wide = static_cast<Loose<T>*>(to);
  auto* bytes = static_cast<const Loose<std::int8_t>*>(from);
  alignas(64) float line[kLineOf];
  for (; count >= kLineOf; count -= kLineOf, wide += kLineOf, bytes += kLineOf + 1) {
    if constexpr (std::is_same_v<T, float>) {
      widen_16(line, bytes);
      __builtin_memcpy(wide, line, sizeof(line));
    } else {
      widen_8(line, bytes);
      for (Elements i = 0; i < kLineOf; ++i) wide[i].value = static_cast<T>(line[i]);
    }
  }
  if (count > 0) widen_line(line, bytes, count);
  for (Elements i = 0; i < count; ++i) wide[i].value = static_cast<T>(line[i]);
}
