#include "core/reduce/recognise.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

// As programs have them: a function per type and operation.
template <DType type, Op op>
void reduces(void* out, const void* a, const void* b, std::size_t elements) {
  const std::array<const void*, 2> sources = {a, b};
  reduce(type, op, out, sources, elements);
}

template <DType type>
void all_operations_of() {
  auto check = []<Op op>() {
    if constexpr (is_reducible(type, op)) {
      const std::optional<Reduction> found = recognise(reduces<type, op>, size_of(type));
      ASSERT_TRUE(found) << name_of(type) << ' ' << name_of(op);
      EXPECT_EQ(found->op, op) << name_of(type) << ' ' << name_of(op);
      // Where signs make no difference either type will do.
      const bool has_signs = op == Op::min || op == Op::max;
      if (is_floating(type) || has_signs) {
        EXPECT_EQ(found->type, type) << name_of(type) << ' ' << name_of(op);
      }
      EXPECT_EQ(size_of(found->type), size_of(type));
      EXPECT_EQ(is_floating(found->type), is_floating(type));
    }
  };
  check.template operator()<Op::sum>();
  check.template operator()<Op::prod>();
  check.template operator()<Op::min>();
  check.template operator()<Op::max>();
  check.template operator()<Op::land>();
  check.template operator()<Op::lor>();
  check.template operator()<Op::lxor>();
  check.template operator()<Op::band>();
  check.template operator()<Op::bor>();
  check.template operator()<Op::bxor>();
}

TEST(Recognise, EveryTypeAndOperationIsToldFromTheOthers) {
  all_operations_of<DType::int8>();
  all_operations_of<DType::int16>();
  all_operations_of<DType::int32>();
  all_operations_of<DType::int64>();
  all_operations_of<DType::uint8>();
  all_operations_of<DType::uint16>();
  all_operations_of<DType::uint32>();
  all_operations_of<DType::uint64>();
  all_operations_of<DType::float16>();
  all_operations_of<DType::bfloat16>();
  all_operations_of<DType::float32>();
  all_operations_of<DType::float64>();
}

TEST(Recognise, WhatIsNoneIsNone) {
  auto difference = [](void* out, const void* a, const void* b, std::size_t elements) {
    for (std::size_t i = 0; i < elements; ++i)
      static_cast<float*>(out)[i] = static_cast<const float*>(a)[i] - static_cast<const float*>(b)[i];
  };
  EXPECT_FALSE(recognise(difference, 4));
  EXPECT_FALSE(recognise([](auto...) {}, 2));
  EXPECT_FALSE(recognise(difference, 16));
}

// Two counters of a byte each, whose sums carry nothing to one another.
TEST(Recognise, SumsOfBytesAreNoSumsOfPairsOfBytes) {
  auto bytewise = [](void* out, const void* a, const void* b, std::size_t elements) {
    for (std::size_t i = 0; i < 2 * elements; ++i)
      static_cast<std::uint8_t*>(out)[i] = static_cast<std::uint8_t>(static_cast<const std::uint8_t*>(a)[i] +
                                                                     static_cast<const std::uint8_t*>(b)[i]);
  };
  EXPECT_FALSE(recognise(bytewise, 2));
  const std::optional<Reduction> of_bytes = recognise(
      [&](void* out, const void* a, const void* b, std::size_t n) { bytewise(out, a, b, n / 2); }, 1);
  ASSERT_TRUE(of_bytes);
  EXPECT_EQ(of_bytes->op, Op::sum);
}

// bfloat16 cut off instead of rounded.
TEST(Recognise, SumsThatAreRoundedOtherwiseAreNotOurs) {
  auto widened = [](const void* from, std::size_t i) {
    std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(from)[i]} << 16;
    float wide;
    std::memcpy(&wide, &bits, sizeof wide);
    return wide;
  };
  auto truncating = [&](void* out, const void* a, const void* b, std::size_t elements) {
    for (std::size_t i = 0; i < elements; ++i) {
      const float sum = widened(a, i) + widened(b, i);
      std::memcpy(static_cast<std::uint16_t*>(out) + i, reinterpret_cast<const std::byte*>(&sum) + 2, 2);
    }
  };
  EXPECT_FALSE(recognise(truncating, 2));
}

}  // namespace
}  // namespace ddl
