// What a reduction should give, one element at a time in plain C++ and without any code of the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/reduce/types.hpp"

namespace ddl::test {

/// A float16 or bfloat16 from its definition: sign, exponent, fraction.
inline double decode_16(std::uint16_t bits, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1),
      fraction = bits & ((1 << fraction_bits) - 1);
  double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

/// The nearest representable value, ties to even: the value is counted in units of its last place.
inline std::uint16_t encode_16(double value, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int infinity = ((1 << exponent_bits) - 1) << fraction_bits;
  int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | 1 << (fraction_bits - 1));
  value = std::fabs(value);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  int exponent = value == 0 ? 1 - bias : std::max(std::ilogb(value), 1 - bias);
  double places =
      std::nearbyint(std::ldexp(value, fraction_bits - exponent));  // 2^fraction_bits and more: normal
  long encoded = static_cast<long>(places) + (static_cast<long>(exponent + bias - 1) << fraction_bits);
  return static_cast<std::uint16_t>(sign | std::min<long>(encoded, infinity));
}

template <class T>
T apply(Op op, T a, T b) {
  switch (op) {
    case Op::min:
      return a < b ? a : b;
    case Op::max:
      return a > b ? a : b;
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    return op == Op::sum ? a + b : a * b;
  } else {
    auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    switch (op) {
      case Op::sum:
        return static_cast<T>(x + y);
      case Op::prod:
        return static_cast<T>(x * y);
      case Op::land:
        return a && b;
      case Op::lor:
        return a || b;
      case Op::lxor:
        return !a != !b;
      case Op::band:
        return static_cast<T>(x & y);
      case Op::bor:
        return static_cast<T>(x | y);
      default:
        return static_cast<T>(x ^ y);
    }
  }
}

using Buffer = std::vector<std::byte>;

template <class T>
T load(const Buffer& buffer, Elements i) {
  T value;
  std::memcpy(&value, buffer.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
inline Buffer reference_of(Op op, const std::vector<Buffer>& sources, Elements count) {
  Buffer result(count * sizeof(T));
  for (Elements i = 0; i < count; ++i) {
    T sum = load<T>(sources[0], i);
    for (std::size_t s = 1; s < sources.size(); ++s) sum = apply<T>(op, sum, load<T>(sources[s], i));
    std::memcpy(result.data() + i * sizeof(T), &sum, sizeof(T));
  }
  return result;
}

inline Buffer reference_of_16(Op op, const std::vector<Buffer>& sources, Elements count, int exponent_bits) {
  if (sources.size() == 1)
    return Buffer(sources[0].begin(), sources[0].begin() + static_cast<long>(count * 2));
  Buffer result(count * 2);
  for (Elements i = 0; i < count; ++i) {
    auto value = [&](std::size_t s) {
      return static_cast<float>(decode_16(load<std::uint16_t>(sources[s], i), exponent_bits));
    };
    float sum = value(0);
    for (std::size_t s = 1; s < sources.size(); ++s) sum = apply<float>(op, sum, value(s));
    std::uint16_t bits = encode_16(sum, exponent_bits);
    std::memcpy(result.data() + i * 2, &bits, 2);
  }
  return result;
}

inline Buffer reference(DType type, Op op, const std::vector<Buffer>& sources, Elements count) {
  switch (type) {
    case DType::int8:
      return reference_of<std::int8_t>(op, sources, count);
    case DType::int16:
      return reference_of<std::int16_t>(op, sources, count);
    case DType::int32:
      return reference_of<std::int32_t>(op, sources, count);
    case DType::int64:
      return reference_of<std::int64_t>(op, sources, count);
    case DType::uint8:
      return reference_of<std::uint8_t>(op, sources, count);
    case DType::uint16:
      return reference_of<std::uint16_t>(op, sources, count);
    case DType::uint32:
      return reference_of<std::uint32_t>(op, sources, count);
    case DType::uint64:
      return reference_of<std::uint64_t>(op, sources, count);
    case DType::float16:
      return reference_of_16(op, sources, count, 5);
    case DType::bfloat16:
      return reference_of_16(op, sources, count, 8);
    case DType::float32:
      return reference_of<float>(op, sources, count);
    default:
      return reference_of<double>(op, sources, count);
  }
}

}  // namespace ddl::test
