#include "core/stream/scaling.hpp"

#include <cstdint>
#include <cstring>

#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

// Calls `body` with a value of the element's C++ type.
template <class Body>
void with_type(DType type, Body body) {
  switch (type) {
    case DType::int8:
      return body(std::int8_t{});
    case DType::int16:
      return body(std::int16_t{});
    case DType::int32:
      return body(std::int32_t{});
    case DType::int64:
      return body(std::int64_t{});
    case DType::uint8:
      return body(std::uint8_t{});
    case DType::uint16:
      return body(std::uint16_t{});
    case DType::uint32:
      return body(std::uint32_t{});
    case DType::uint64:
      return body(std::uint64_t{});
    case DType::float32:
      return body(float{});
    case DType::float64:
      return body(double{});
    case DType::float16:
    case DType::bfloat16:
    case DType::bytes16:
      return;
  }
}

// Integers wrap, as they do on the device: signed ones are multiplied as unsigned.
template <class T>
T product(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}

}  // namespace

void multiply(DType type, void* to, const void* from, Elements count, const Scalar& factor) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    T by;
    std::memcpy(&by, factor.data(), sizeof(T));
    for (Elements i = 0; i < count; ++i) static_cast<T*>(to)[i] = product(static_cast<const T*>(from)[i], by);
  });
}

void divide(DType type, void* data, Elements count, Rank divisor) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    // An int8 of 200 ranks: divided as a wider number.
    using Wide = std::conditional_t<std::is_floating_point_v<T>, T,
                                    std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
    T* values = static_cast<T*>(data);
    for (Elements i = 0; i < count; ++i)
      values[i] = static_cast<T>(static_cast<Wide>(values[i]) / static_cast<Wide>(divisor));
  });
}

void widen(DType half, float* to, const void* from, Elements count) {
  auto* bits = static_cast<const std::uint16_t*>(from);
  auto* convert = half == DType::float16 ? half_to_float : bfloat16_to_float;
  for (Elements i = 0; i < count; ++i) to[i] = convert(bits[i]);
}

void narrow(DType half, void* to, const float* from, Elements count) {
  auto* bits = static_cast<std::uint16_t*>(to);
  auto* convert = half == DType::float16 ? float_to_half : float_to_bfloat16;
  for (Elements i = 0; i < count; ++i) bits[i] = convert(from[i]);
}

Scalar widened(DType half, const Scalar& factor) {
  float value;
  widen(half, &value, factor.data(), 1);
  Scalar wide{};
  std::memcpy(wide.data(), &value, sizeof(value));
  return wide;
}

}  // namespace ddl
