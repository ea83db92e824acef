#include "core/stream/scaling.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

template <class T>
Scalar scalar_of(T value) {
  Scalar scalar{};
  std::memcpy(scalar.data(), &value, sizeof(T));
  return scalar;
}

template <class T>
std::vector<T> divided(DType type, std::vector<T> values, Rank by) {
  divide(type, values.data(), values.size(), by);
  return values;
}

template <class T>
std::vector<T> multiplied(DType type, const std::vector<T>& values, T by) {
  std::vector<T> result(values.size());
  multiply(type, result.data(), values.data(), values.size(), scalar_of(by));
  return result;
}

TEST(Scaling, AnAverageOfIntegersIsCutTowardZero) {
  EXPECT_EQ(divided<std::int32_t>(DType::int32, {7, -7, 0, 6, -2147483647 - 1}, 3),
            (std::vector<std::int32_t>{2, -2, 0, 2, -715827882}));
  EXPECT_EQ(divided<std::uint64_t>(DType::uint64, {~std::uint64_t{0}}, 2),
            (std::vector<std::uint64_t>{0x7fffffffffffffff}));
}

TEST(Scaling, MoreRanksThanASmallTypeCounts) {
  EXPECT_EQ(divided<std::int8_t>(DType::int8, {127, -128}, 200), (std::vector<std::int8_t>{0, 0}));
  EXPECT_EQ(divided<std::uint8_t>(DType::uint8, {255}, 300), (std::vector<std::uint8_t>{0}));
}

TEST(Scaling, FloatsAreDividedAndNotMultipliedByARoundedInverse) {
  EXPECT_EQ(divided<float>(DType::float32, {3, 1}, 3), (std::vector<float>{1, 1.0f / 3}));
  EXPECT_EQ(divided<double>(DType::float64, {49}, 49), (std::vector<double>{1}));
}

TEST(Scaling, ProductsOfIntegersWrap) {
  EXPECT_EQ(multiplied<std::int8_t>(DType::int8, {100, -100, 3}, 3), (std::vector<std::int8_t>{44, -44, 9}));
  EXPECT_EQ(multiplied<std::int64_t>(DType::int64, {std::numeric_limits<std::int64_t>::max(), -5}, 2),
            (std::vector<std::int64_t>{-2, -10}));
  EXPECT_EQ(multiplied<double>(DType::float64, {1.5, -2}, 0.5), (std::vector<double>{0.75, -1}));
}

TEST(Scaling, HalfTypesAreWidenedExactlyAndNarrowedToTheNearest) {
  for (DType half : {DType::float16, DType::bfloat16}) {
    std::vector<float> wide(3), values = {1, -2.5, 0.125};
    std::vector<std::uint16_t> bits(3);
    narrow(half, bits.data(), values.data(), 3);
    widen(half, wide.data(), bits.data(), 3);
    EXPECT_EQ(wide, values);
    float factor = 0;
    Scalar scalar = widened(half, scalar_of(bits[1]));
    std::memcpy(&factor, scalar.data(), sizeof(factor));
    EXPECT_EQ(factor, -2.5f);
  }
}

}  // namespace
}  // namespace ddl
