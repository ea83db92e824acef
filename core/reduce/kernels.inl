// The reduction kernels, included once per instruction set with DDL_KERNELS naming its namespace.
//
// Everything here has internal linkage, and nothing inline from another header is called: an inline function
// compiled here with AVX could be the copy the linker keeps for the whole program.
//
// All kernels load what they need of a block before they store it, so dst may be one of the sources. Sums of
// two NaNs are a NaN, but which of the two payloads survives is the compiler's choice.
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <type_traits>

#include "core/reduce/kernel_table.hpp"

namespace ddl::kernels::DDL_KERNELS {
namespace {

/// An element at any address, of memory that belongs to the caller and may have another type there.
template <class T>
struct [[gnu::packed, gnu::may_alias]] Loose {
  T value;
};

constexpr std::size_t kBlockBytes = 4096;  // accumulators of one block: they stay in L1 beside the sources

// ---- operations ----

/// Unsigned and not narrower than int: wraps instead of overflowing, and is not promoted to signed.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

struct Sum {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Prod {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
// Of a NaN and a number, and of two zeros, the second is taken: what x86's own minimum does.
struct Min {
  template <class T>
  static T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return a > b ? a : b;
  }
};
struct LogicalAnd {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>((a != 0) & (b != 0));
  }
};
struct LogicalOr {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>((a != 0) | (b != 0));
  }
};
struct LogicalXor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>((a != 0) ^ (b != 0));
  }
};
struct BitAnd {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

/// to[i] = a[i] op b[i]. `to` may be a or b: iterations are independent, which is what ivdep promises.
template <class Operation, class T>
void combine(Loose<T>* to, const Loose<T>* a, const Loose<T>* b, Elements count) {
#pragma GCC ivdep
  for (Elements i = 0; i < count; ++i) to[i].value = Operation::of(a[i].value, b[i].value);
}

// ---- types that accumulate in themselves ----

// Three and more. Not inlined: where many are in one function each has a block of its own on the stack, and a
// program's threads may have 16 KiB of that.
template <class Operation, class T>
[[gnu::noinline]] void fold_many(void* to, const void* const* sources, std::size_t n_sources,
                                 Elements count) {
  constexpr Elements kBlock = kBlockBytes / sizeof(T);
  auto* dst = static_cast<Loose<T>*>(to);
  auto source = [&](std::size_t s) { return static_cast<const Loose<T>*>(sources[s]); };
  Loose<T> sums[kBlock];
  for (Elements at = 0; at < count; at += kBlock) {
    Elements n = count - at < kBlock ? count - at : kBlock;
    combine<Operation>(sums, source(0) + at, source(1) + at, n);
    for (std::size_t s = 2; s + 1 < n_sources; ++s) combine<Operation>(sums, sums, source(s) + at, n);
    combine<Operation>(dst + at, sums, source(n_sources - 1) + at, n);
  }
}

template <class Operation, class T>
void fold(void* to, const void* const* sources, std::size_t n_sources, Elements count) {
  auto source = [&](std::size_t s) { return static_cast<const Loose<T>*>(sources[s]); };
  if (n_sources > 2) return fold_many<Operation, T>(to, sources, n_sources, count);
  if (n_sources == 2) return combine<Operation>(static_cast<Loose<T>*>(to), source(0), source(1), count);
  if (to != sources[0]) __builtin_memcpy(to, sources[0], count * sizeof(T));
}

// ---- float16 and bfloat16 ----

constexpr std::uint32_t kExponent = 0x7f800000, kQuiet = 0x00400000;

/// Exact in integers, but for subnormals: those are a small integer times 2^-24, exact whatever the rounding
/// mode.
float half_value(std::uint16_t half) {
  std::uint32_t bits = half, magnitude = bits & 0x7fff, sign = (bits & 0x8000) << 16;
  std::uint32_t normal = (magnitude << 13) + (112u << 23);
  std::uint32_t special = (magnitude << 13) | kExponent | (magnitude > 0x7c00 ? kQuiet : 0);
  float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  std::uint32_t result = magnitude >= 0x7c00   ? special
                         : magnitude >= 0x0400 ? normal
                                               : __builtin_bit_cast(std::uint32_t, small);
  return __builtin_bit_cast(float, result | sign);
}

/// To nearest even; NaNs keep their sign and upper payload and become quiet, as F16C does.
std::uint16_t half_bits(float value) {
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value), magnitude = bits & 0x7fffffff;
  std::uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  std::uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Below the normal halves: the last place of a float near 0.5 is 2^-24, the unit of subnormal halves.
  float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
  std::uint32_t small = __builtin_bit_cast(std::uint32_t, shifted) - __builtin_bit_cast(std::uint32_t, 0.5f);
  std::uint32_t result = magnitude > kExponent     ? nan
                         : magnitude >= 0x47800000 ? 0x7c00
                         : magnitude >= 0x38800000 ? normal
                                                   : small;
  return static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000));
}

float bfloat16_value(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t bfloat16_bits(float value) {
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  std::uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return static_cast<std::uint16_t>(((bits & 0x7fffffff) > kExponent ? bits | kQuiet : rounded) >> 16);
}

using Bits16 = Loose<std::uint16_t>;
using Float = Loose<float>;

struct Half {
  static void expand(Float* to, const void* from, Elements count) {
    auto* halves = static_cast<const Bits16*>(from);
    Elements i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
      _mm256_storeu_ps(reinterpret_cast<float*>(to + i),
                       _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i))));
#endif
    for (; i < count; ++i) to[i].value = half_value(halves[i].value);
  }
  static void round(void* to, const Float* from, Elements count) {
    auto* halves = static_cast<Bits16*>(to);
    Elements i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(reinterpret_cast<const float*>(from + i)),
                                       _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < count; ++i) halves[i].value = half_bits(from[i].value);
  }
};
struct Bfloat16 {
  static void expand(Float* to, const void* from, Elements count) {
    auto* halves = static_cast<const Bits16*>(from);
#pragma GCC ivdep
    for (Elements i = 0; i < count; ++i) to[i].value = bfloat16_value(halves[i].value);
  }
  static void round(void* to, const Float* from, Elements count) {
    auto* halves = static_cast<Bits16*>(to);
#pragma GCC ivdep
    for (Elements i = 0; i < count; ++i) halves[i].value = bfloat16_bits(from[i].value);
  }
};

template <class Format>
void expand(float* to, const void* from, Elements count) {
  Format::expand(reinterpret_cast<Float*>(to), from, count);
}

template <class Format>
void round(void* to, const float* from, Elements count) {
  Format::round(to, reinterpret_cast<const Float*>(from), count);
}

/// Accumulates in float32 over all sources and rounds once.
template <class Operation, class Format>
[[gnu::noinline]] void fold_16(void* to, const void* const* sources, std::size_t n_sources, Elements count) {
  constexpr Elements kBlock = kBlockBytes / sizeof(float);
  if (n_sources == 1) {
    if (to != sources[0]) __builtin_memcpy(to, sources[0], count * sizeof(Bits16));
    return;
  }
  Float sums[kBlock], next[kBlock];
  for (Elements at = 0; at < count; at += kBlock) {
    Elements n = count - at < kBlock ? count - at : kBlock;
    Format::expand(sums, static_cast<const Bits16*>(sources[0]) + at, n);
    for (std::size_t s = 1; s < n_sources; ++s) {
      Format::expand(next, static_cast<const Bits16*>(sources[s]) + at, n);
      combine<Operation>(sums, sums, next, n);
    }
    Format::round(static_cast<Bits16*>(to) + at, sums, n);
  }
}

#include "core/reduce/narrow.inl"

// ---- copying past the cache ----

#if defined(__SSE2__)
#if defined(__AVX512F__)
using Line = __m512i;
Line load(const Line* from) { return _mm512_loadu_si512(from); }
void store(Line* to, Line value) { _mm512_storeu_si512(to, value); }
void store_past_cache(Line* to, Line value) { _mm512_stream_si512(to, value); }
#elif defined(__AVX2__)
using Line = __m256i;
Line load(const Line* from) { return _mm256_loadu_si256(from); }
void store(Line* to, Line value) { _mm256_storeu_si256(to, value); }
void store_past_cache(Line* to, Line value) { _mm256_stream_si256(to, value); }
#else
using Line = __m128i;
Line load(const Line* from) { return _mm_loadu_si128(from); }
void store(Line* to, Line value) { _mm_storeu_si128(to, value); }
void store_past_cache(Line* to, Line value) { _mm_stream_si128(to, value); }
#endif

// One pass over `from`: two separate ones would wait for memory twice.
template <bool kKeeps>
void stream_to(char* to, [[maybe_unused]] char* kept, const char* from, std::size_t bytes) {
  auto plainly = [&](std::size_t count) {
    __builtin_memcpy(to, from, count);
    if constexpr (kKeeps) __builtin_memcpy(kept, from, count), kept += count;
    to += count, from += count, bytes -= count;
  };
  std::size_t head =
      -reinterpret_cast<std::size_t>(to) % 64;  // whole cache lines, or they are read after all
  plainly(head < bytes ? head : bytes);
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64)
    for (std::size_t at = 0; at < 64; at += sizeof(Line)) {
      Line line = load(reinterpret_cast<const Line*>(from + at));
      if constexpr (kKeeps) store(reinterpret_cast<Line*>(kept), line), kept += sizeof(Line);
      store_past_cache(reinterpret_cast<Line*>(to + at), line);
    }
  plainly(bytes);
}

void stream(void* to, const void* from, std::size_t bytes) {
  stream_to<false>(static_cast<char*>(to), nullptr, static_cast<const char*>(from), bytes);
}

void stream_and_keep(void* to, void* kept, const void* from, std::size_t bytes) {
  stream_to<true>(static_cast<char*>(to), static_cast<char*>(kept), static_cast<const char*>(from), bytes);
}
#else
void stream(void* to, const void* from, std::size_t bytes) { __builtin_memcpy(to, from, bytes); }

void stream_and_keep(void* to, void* kept, const void* from, std::size_t bytes) {
  __builtin_memcpy(kept, from, bytes);
  __builtin_memcpy(to, from, bytes);
}
#endif

// ---- the table ----

/// Signed and unsigned share the kernels of all operations but minimum and maximum.
template <class T>
constexpr void set_integer_row(Fold* (&row)[kOps]) {
  using U = std::make_unsigned_t<T>;
  Fold* kernels[kOps] = {fold<Sum, U>,        fold<Prod, U>,      fold<Min, T>,        fold<Max, T>,
                         fold<LogicalAnd, U>, fold<LogicalOr, U>, fold<LogicalXor, U>, fold<BitAnd, U>,
                         fold<BitOr, U>,      fold<BitXor, U>};
  for (int op = 0; op < kOps; ++op) row[op] = kernels[op];
}

template <template <class, class> class Kernel, class T>
constexpr void set_float_row(Fold* (&row)[kOps]) {
  row[0] = Kernel<Sum, T>::run, row[1] = Kernel<Prod, T>::run;
  row[2] = Kernel<Min, T>::run, row[3] = Kernel<Max, T>::run;
}
template <class Operation, class T>
struct Plain {
  static constexpr Fold* run = fold<Operation, T>;
};
template <class Operation, class Format>
struct Sixteen {
  static constexpr Fold* run = fold_16<Operation, Format>;
};

template <class T, class Format>
constexpr void set_conversions(Table& table, WireType as) {
  constexpr int wide = std::is_same_v<T, double>;  // wide_index()
  table.narrow[wide][static_cast<int>(as)] = narrow<T, Format>;
  table.widen[wide][static_cast<int>(as)] = widen<T, Format>;
}

#define DDL_TEXT_OF(name) #name
#define DDL_TEXT(name) DDL_TEXT_OF(name)

constexpr Table make_table() {
  Table table{DDL_TEXT(DDL_KERNELS), {}, expand<Half>, round<Half>, expand<Bfloat16>,
              round<Bfloat16>,       {}, {},           stream,      stream_and_keep};
  set_conversions<float, Half>(table, WireType::float16);
  set_conversions<float, Bfloat16>(table, WireType::bfloat16);
  set_conversions<double, Half>(table, WireType::float16);
  set_conversions<double, Bfloat16>(table, WireType::bfloat16);
  constexpr int scaled = static_cast<int>(WireType::int8);
  table.narrow[0][scaled] = narrow_scaled<float>, table.widen[0][scaled] = widen_scaled<float>;
  table.narrow[1][scaled] = narrow_scaled<double>, table.widen[1][scaled] = widen_scaled<double>;
  auto& rows = table.fold;
  set_integer_row<std::int8_t>(rows[static_cast<int>(DType::int8)]);
  set_integer_row<std::int16_t>(rows[static_cast<int>(DType::int16)]);
  set_integer_row<std::int32_t>(rows[static_cast<int>(DType::int32)]);
  set_integer_row<std::int64_t>(rows[static_cast<int>(DType::int64)]);
  set_integer_row<std::uint8_t>(rows[static_cast<int>(DType::uint8)]);
  set_integer_row<std::uint16_t>(rows[static_cast<int>(DType::uint16)]);
  set_integer_row<std::uint32_t>(rows[static_cast<int>(DType::uint32)]);
  set_integer_row<std::uint64_t>(rows[static_cast<int>(DType::uint64)]);
  set_float_row<Sixteen, Half>(rows[static_cast<int>(DType::float16)]);
  set_float_row<Sixteen, Bfloat16>(rows[static_cast<int>(DType::bfloat16)]);
  set_float_row<Plain, float>(rows[static_cast<int>(DType::float32)]);
  set_float_row<Plain, double>(rows[static_cast<int>(DType::float64)]);
  return table;
}

}  // namespace

// Declared extern in kernel_table.hpp.
constexpr Table kTable = make_table();

}  // namespace ddl::kernels::DDL_KERNELS
