// Reduction kernels for every (type, op), written once in kernels.inl and compiled per instruction set; the
// best one this CPU runs is chosen at the first call.
//
// Rounding: float16 and bfloat16 are accumulated in float32 over all sources of one call and rounded once, to
// nearest even. The order of the sources is the order of the additions: the same bits on every CPU. Thread
// safety: pure functions on the caller's memory. Buffers need no alignment.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/base/partition.hpp"
#include "core/base/types.hpp"
#include "core/reduce/types.hpp"

namespace ddl {

/// dst[i] = sources[0][i] op sources[1][i] op ... for `count` elements. At least one source. `dst` may be the
/// same pointer as one or several of the sources, but must not overlap one otherwise. Needs
/// is_reducible(type, op).
void reduce(DType type, Op op, void* dst, std::span<const void* const> sources, Elements count);

/// Copies past the cache: for results that would not stay in it, and would only push out what should. Costs
/// two thirds of a plain copy's traffic to memory, since the destination is not read first. No overlap. These
/// stores are not ordered with others: call stream_end() before you tell anybody that they are done.
void stream(void* to, const void* from, std::size_t bytes);
/// The same, and a plain copy to `kept`, in one pass.
void stream_and_keep(void* to, void* kept, const void* from, std::size_t bytes);
void stream_end();

/// What elements of a type travel as, and where. `of` and `where` say nothing where they travel as they are.
struct WireFormat {
  DType of = DType::float32;
  WireType as = WireType::exact;
  WireWhere where = WireWhere::between;

  bool is_exact() const { return as == WireType::exact; }
  /// Elements in 8 bits share a scale with those of their cache line, counted from the first that is
  /// narrowed: cuts elsewhere would round again.
  bool has_scales() const { return as == WireType::int8; }
  Elements line() const { return 64 / size_of(of); }
  /// What that many elements take there; unless exact.
  Bytes bytes(Elements count) const { return has_scales() ? count + divide_up(count, line()) : count * 2; }
  /// Bytes that travel per byte in memory; 1 where exact.
  double ratio() const { return is_exact() ? 1 : static_cast<double>(bytes(line())) / 64; }
  friend bool operator==(const WireFormat&, const WireFormat&) = default;
};
/// For people: "bfloat16 between hosts".
std::string describe(const WireFormat& format);

/// To what travels, and back: each element rounded to nearest even (a float64 by way of float32), infinities
/// and NaNs kept, what is too large for the type infinite. In 8 bits to a multiple of a power of two of which
/// the largest number of the line takes 63 to 125. What has been widened narrows to the same again.
/// Needs a format that is not exact, of float32 or float64. No overlap.
void narrow(const WireFormat& format, void* to, const void* from, Elements count);
void widen(const WireFormat& format, void* to, const void* from, Elements count);

/// Name of the instruction set in use: "baseline", "avx2", "avx512".
const char* reduce_kernel_name();

/// float -> float16/bfloat16 bits and back, round to nearest even, infinities and NaNs kept.
std::uint16_t float_to_half(float value);
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);
float bfloat16_to_float(std::uint16_t bits);

}  // namespace ddl
