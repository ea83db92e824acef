#include "tests/support/fake_cuda/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>

namespace fake_cuda {
namespace {

using ddl::kernels::ReduceArguments;

// Slow and simple on purpose: by the numbers that the bits stand for, not by tricks that the real ones share.
float half_value(std::uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024.0f + static_cast<float>(fraction), exponent - 25)
                          : std::ldexp(static_cast<float>(fraction), -24));
}

// The nearest half: a multiple of its binade's unit, rounded to even by the host's rounding.
std::uint16_t half_bits(float value) {
  auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return sign | 0x7e00;
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // 1024 units and more have the implicit bit; 2048 carry over into the next exponent by themselves.
  return static_cast<std::uint16_t>(sign | ((exponent + 14) * 1024 + units));
}

float brain_value(std::uint16_t bits) {
  std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

std::uint16_t brain_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  std::uint32_t below = bits & 0xffff, kept = bits >> 16;
  bool up = below > 0x8000 || (below == 0x8000 && kept % 2 == 1);
  return static_cast<std::uint16_t>(kept + (up ? 1 : 0));
}

template <class T>
struct Plain {
  using Stored = T;
  using Wide = T;
  static T widen(T value) { return value; }
  static T narrow(T value) { return value; }
};
struct Half {
  using Stored = std::uint16_t;
  using Wide = float;
  static float widen(std::uint16_t bits) { return half_value(bits); }
  static std::uint16_t narrow(float value) { return half_bits(value); }
};
struct Brain {
  using Stored = std::uint16_t;
  using Wide = float;
  static float widen(std::uint16_t bits) { return brain_value(bits); }
  static std::uint16_t narrow(float value) { return brain_bits(value); }
};

enum class What { kSum, kProd, kMin, kMax, kAverage };

template <class T>
T combine(What what, T a, T b) {
  using W = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
  switch (what) {
    case What::kProd:
      return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
    case What::kMin:
      return a < b ? a : b;
    case What::kMax:
      return a > b ? a : b;
    default:
      return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
}

template <class T>
T divided(T value, unsigned by) {
  if constexpr (std::is_floating_point_v<T>)
    return value / static_cast<T>(by);
  else if constexpr (std::is_signed_v<T>)
    return static_cast<T>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(by));
  else
    return static_cast<T>(static_cast<std::uint64_t>(value) / by);
}

template <class Format>
Twin twin(What what) {
  using Stored = typename Format::Stored;
  return {sizeof(Stored), [what](const ReduceArguments& arguments) {
            auto at = [](unsigned long long buffer) { return reinterpret_cast<Stored*>(buffer); };
            for (unsigned long long i = 0; i < arguments.count; ++i) {
              typename Format::Wide result = Format::widen(at(arguments.in[0])[i]);
              for (unsigned s = 1; s < arguments.ins; ++s)
                result = combine(what, result, Format::widen(at(arguments.in[s])[i]));
              if (what == What::kAverage) result = divided(result, arguments.ins);
              for (unsigned j = 0; j < arguments.outs; ++j) at(arguments.out[j])[i] = Format::narrow(result);
            }
          }};
}

using Twins = std::map<std::string, Twin, std::less<>>;

template <class Format>
void add(Twins& twins, const std::string& type) {
  twins["ddl_reduce_sum_" + type] = twin<Format>(What::kSum);
  twins["ddl_reduce_prod_" + type] = twin<Format>(What::kProd);
  twins["ddl_reduce_min_" + type] = twin<Format>(What::kMin);
  twins["ddl_reduce_max_" + type] = twin<Format>(What::kMax);
  twins["ddl_reduce_average_" + type] = twin<Format>(What::kAverage);
}

Twins all_twins() {
  Twins twins;
  add<Plain<std::int8_t>>(twins, "int8");
  add<Plain<std::uint8_t>>(twins, "uint8");
  add<Plain<std::int32_t>>(twins, "int32");
  add<Plain<std::uint32_t>>(twins, "uint32");
  add<Plain<std::int64_t>>(twins, "int64");
  add<Plain<std::uint64_t>>(twins, "uint64");
  add<Half>(twins, "float16");
  add<Brain>(twins, "bfloat16");
  add<Plain<float>>(twins, "float32");
  add<Plain<double>>(twins, "float64");
  return twins;
}

}  // namespace

const Twin* twin_of(std::string_view kernel) {
  static const Twins* twins = new Twins(all_twins());
  auto found = twins->find(kernel);
  return found == twins->end() ? nullptr : &found->second;
}

}  // namespace fake_cuda
