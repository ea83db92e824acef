// The arithmetic that NCCL's operations have and the engine's reductions have not: averages, and sums of
// inputs that are multiplied first. Half types are widened to float32 for it and rounded once, at the end.
// Thread safety: pure functions on the caller's memory.
#pragma once

#include <array>
#include <cstddef>

#include "core/base/types.hpp"
#include "core/reduce/types.hpp"

namespace ddl {

/// The bytes of one value, of the type that the call has.
using Scalar = std::array<std::byte, 8>;

constexpr bool is_half(DType type) { return type == DType::float16 || type == DType::bfloat16; }

/// to[i] = from[i] * factor. Not for half types.
void multiply(DType type, void* to, const void* from, Elements count, const Scalar& factor);
/// data[i] = data[i] / divisor; integers are cut toward zero. Not for half types.
void divide(DType type, void* data, Elements count, Rank divisor);

/// float32 from a half type and back, rounded to nearest even.
void widen(DType half, float* to, const void* from, Elements count);
void narrow(DType half, void* to, const float* from, Elements count);
/// A factor of that half type as one of float32.
Scalar widened(DType half, const Scalar& factor);

}  // namespace ddl
