// Conversions between element types and what travels for them: every instruction set this CPU runs, against a
// plain reference written without any of their code.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/reduce/kernel_table.hpp"
#include "core/reduce/reduce.hpp"
#include "tests/core/reduce_reference.hpp"

namespace ddl {
namespace {

using kernels::Table;
using test::decode_16;
using test::encode_16;

std::vector<std::uint16_t> all_16_bit_values() {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  return all;
}

template <class Convert>
std::vector<std::uint32_t> expanded(Convert* convert, const std::vector<std::uint16_t>& bits) {
  std::vector<float> floats(bits.size());
  convert(floats.data(), bits.data(), bits.size());
  std::vector<std::uint32_t> result(bits.size());
  std::memcpy(result.data(), floats.data(), floats.size() * sizeof(float));
  return result;
}

template <class Convert>
std::vector<std::uint16_t> rounded(Convert* convert, const std::vector<float>& floats) {
  std::vector<std::uint16_t> result(floats.size());
  convert(result.data(), floats.data(), floats.size());
  return result;
}

TEST(SixteenBitConversion, ExpandsAll65536ValuesExactlyAndAlikeOnEveryInstructionSet) {
  auto all = all_16_bit_values();
  const Table& first = *kernels::runnable_kernels().front();
  auto half = expanded(first.half_to_float, all), bfloat = expanded(first.bfloat16_to_float, all);
  for (const Table* table : kernels::runnable_kernels()) {
    EXPECT_TRUE(expanded(table->half_to_float, all) == half) << table->name;
    EXPECT_TRUE(expanded(table->bfloat16_to_float, all) == bfloat) << table->name;
  }
  for (std::uint16_t bits : all) {
    double expect_half = decode_16(bits, 5), expect_bfloat = decode_16(bits, 8);
    float got_half = std::bit_cast<float>(half[bits]), got_bfloat = std::bit_cast<float>(bfloat[bits]);
    ASSERT_TRUE(std::isnan(expect_half) ? std::isnan(got_half) : got_half == expect_half) << bits;
    ASSERT_TRUE(std::isnan(expect_bfloat) ? std::isnan(got_bfloat) : got_bfloat == expect_bfloat) << bits;
    ASSERT_EQ(half[bits] >> 31, bits >> 15) << bits;
    ASSERT_EQ(bfloat[bits] >> 31, bits >> 15) << bits;
  }
}

/// Every 16-bit value, the midpoints between neighbours, the floats beside both, and random bit patterns.
std::vector<float> hard_floats(int exponent_bits) {
  std::vector<float> result;
  auto add_with_neighbours = [&](float value) {
    for (int step = -1; step <= 1; ++step)
      result.push_back(
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) + static_cast<std::uint32_t>(step)));
  };
  for (std::uint16_t bits : all_16_bit_values()) {
    double value = decode_16(bits, exponent_bits);
    add_with_neighbours(static_cast<float>(value));
    add_with_neighbours(
        static_cast<float>((value + decode_16(static_cast<std::uint16_t>(bits + 1), exponent_bits)) / 2));
  }
  std::mt19937_64 random(11);
  for (int i = 0; i < 200000; ++i)
    result.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (float value : {65519.996f, 65520.0f, 65536.0f, 3.4028235e38f, 3.3961775e38f, 1e-45f, 5.9604645e-8f,
                      2.9802322e-8f, 2.9802326e-8f})
    add_with_neighbours(value), add_with_neighbours(-value);
  return result;
}

void check_rounding(const std::vector<float>& floats, const std::vector<std::uint16_t>& got,
                    int exponent_bits) {
  for (std::size_t i = 0; i < floats.size(); ++i) {
    if (std::isnan(floats[i])) {
      ASSERT_TRUE(std::isnan(decode_16(got[i], exponent_bits))) << i;
    } else {
      ASSERT_EQ(got[i], encode_16(floats[i], exponent_bits)) << std::hexfloat << floats[i];
    }
  }
}

TEST(SixteenBitConversion, RoundsToNearestEvenAlikeOnEveryInstructionSet) {
  const Table& first = *kernels::runnable_kernels().front();
  auto for_half = hard_floats(5), for_bfloat = hard_floats(8);
  auto half = rounded(first.float_to_half, for_half), bfloat = rounded(first.float_to_bfloat16, for_bfloat);
  check_rounding(for_half, half, 5);
  check_rounding(for_bfloat, bfloat, 8);
  for (const Table* table : kernels::runnable_kernels()) {
    EXPECT_TRUE(rounded(table->float_to_half, for_half) == half) << table->name;
    EXPECT_TRUE(rounded(table->float_to_bfloat16, for_bfloat) == bfloat) << table->name;
  }
}

template <class T>
void check_narrowing(DType type, WireType as, int exponent_bits) {
  const std::vector<float> hard = hard_floats(exponent_bits);
  const std::vector<T> wide(hard.begin(), hard.end());
  const auto all = all_16_bit_values();
  for (const Table* table : kernels::runnable_kernels()) {
    const int of = kernels::wide_index(type), to = static_cast<int>(as);
    std::vector<std::uint16_t> narrow(wide.size());
    table->narrow[of][to](narrow.data(), wide.data(), wide.size());
    check_rounding(hard, narrow, exponent_bits);
    for (Elements count : {std::size_t{0}, std::size_t{1}, std::size_t{37}, all.size()}) {
      std::vector<std::byte> place(count * sizeof(T) + 2, std::byte{0x5a});
      table->widen[of][to](place.data() + 1, all.data(), count);  // at an odd address
      EXPECT_EQ(place.front(), std::byte{0x5a});
      EXPECT_EQ(place.back(), std::byte{0x5a});
      for (std::size_t i = 0; i < count; ++i) {
        T got;
        std::memcpy(&got, place.data() + 1 + i * sizeof(T), sizeof(T));
        const double expected = decode_16(all[i], exponent_bits);
        ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : static_cast<double>(got) == expected)
            << table->name << " " << i;
      }
    }
  }
}

TEST(Narrowing, EveryInstructionSetConvertsFloatsAsTheReferenceDoes) {
  check_narrowing<float>(DType::float32, WireType::float16, 5);
  check_narrowing<float>(DType::float32, WireType::bfloat16, 8);
  check_narrowing<double>(DType::float64, WireType::float16, 5);
  check_narrowing<double>(DType::float64, WireType::bfloat16, 8);
}

// In 8 bits: per line a power of two, multiples of it no farther away than half of it, and the same again.
template <class T>
void check_scaled(const WireFormat& wire) {
  std::mt19937_64 random(3);
  const Elements line = wire.line();
  std::vector<T> values;
  for (int exponent = -140; exponent <= 128; ++exponent)
    for (Elements i = 0; i < 3 * line; ++i) {
      const double part = std::ldexp(static_cast<double>(random() >> 11), -53);
      values.push_back(
          static_cast<T>(std::ldexp(i % 7 ? part : 1 - part / 64, exponent) * (random() % 2 ? 1 : -1)));
      if (std::isinf(static_cast<float>(values.back()))) values.back() = std::numeric_limits<float>::max();
    }
  values.resize(values.size() - 5);  // the last line is short
  const Table& first = *kernels::runnable_kernels().front();
  const int of = kernels::wide_index(wire.of), as = static_cast<int>(wire.as);
  std::vector<std::byte> expected(wire.bytes(values.size())), again(expected.size());
  first.narrow[of][as](expected.data(), values.data(), values.size());
  for (const Table* table : kernels::runnable_kernels()) {
    std::vector<std::byte> narrowed(expected.size() + 1);
    table->narrow[of][as](narrowed.data(), values.data(), values.size());
    EXPECT_EQ(narrowed.back(), std::byte{0});
    narrowed.pop_back();
    ASSERT_EQ(narrowed, expected) << table->name;
    std::vector<T> back(values.size());
    table->widen[of][as](back.data(), narrowed.data(), values.size());
    table->narrow[of][as](again.data(), back.data(), values.size());
    std::vector<T> twice(values.size());
    table->widen[of][as](twice.data(), again.data(), values.size());
    ASSERT_EQ(twice, back) << table->name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t begin = i / line * line;
      double most = 0;
      for (std::size_t k = begin; k < std::min(begin + line, values.size()); ++k)
        most = std::max(most, std::fabs(static_cast<double>(values[k])));
      if (most > 0x1.f8p127) continue;  // becomes infinite
      ASSERT_LE(std::fabs(static_cast<double>(back[i]) - static_cast<double>(values[i])),
                std::max(most / 125, 0x1p-107))
          << table->name << " " << i << " " << values[i];
    }
  }
}

TEST(Narrowing, InEightBitsEveryLineHasItsScale) {
  check_scaled<float>({DType::float32, WireType::int8});
  check_scaled<double>({DType::float64, WireType::int8});
}

TEST(Narrowing, InEightBitsInfinitiesAndNaNsSpoilNothingElse) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const WireFormat wire{DType::float32, WireType::int8};
  for (const Table* table : kernels::runnable_kernels()) {
    std::vector<float> values = {1, -2, inf, 0.5F, -inf, nan, 3, 0, 1, 1, 1, 1, 1, 1, 1, 1, 7, inf};
    std::vector<std::byte> narrowed(wire.bytes(values.size()));
    std::vector<float> back(values.size());
    table->narrow[0][static_cast<int>(wire.as)](narrowed.data(), values.data(), values.size());
    table->widen[0][static_cast<int>(wire.as)](back.data(), narrowed.data(), values.size());
    EXPECT_TRUE(std::isnan(back[5]));
    back[5] = values[5] = 0;
    EXPECT_EQ(back, values) << table->name;
  }
}

// By way of float32: what lies beside a midpoint by less than that can tell is a tie.
TEST(Narrowing, RoundsFloat64ByWayOfFloat32AndCarriesWhatIsTooLarge) {
  const std::vector<double> wide = {1 + 0x1p-8 + 0x1p-40, 1e300, -1e39, 0x1p-140,
                                    std::numeric_limits<double>::quiet_NaN()};
  std::vector<std::uint16_t> narrowed(wide.size());
  narrow({DType::float64, WireType::bfloat16}, narrowed.data(), wide.data(), wide.size());
  EXPECT_EQ(narrowed[0], 0x3f80);
  EXPECT_EQ(narrowed[1], 0x7f80);
  EXPECT_EQ(narrowed[2], 0xff80);
  EXPECT_EQ(narrowed[3], 0);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(narrowed[4])));
}

TEST(SixteenBitConversion, GivesBackEveryValueItExpanded) {
  for (std::uint16_t bits : all_16_bit_values()) {
    if (!std::isnan(half_to_float(bits))) {
      ASSERT_EQ(float_to_half(half_to_float(bits)), bits);
    }
    if (!std::isnan(bfloat16_to_float(bits))) {
      ASSERT_EQ(float_to_bfloat16(bfloat16_to_float(bits)), bits);
    }
  }
}

}  // namespace
}  // namespace ddl
