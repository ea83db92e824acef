#include "interpose/gloo/reduction.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "core/reduce/reduce.hpp"

namespace ddl::gloo {
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
      if (is_floating(type) || has_signs) EXPECT_EQ(found->type, type) << name_of(type) << ' ' << name_of(op);
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

TEST(GlooReduction, EveryTypeAndOperationIsToldFromTheOthers) {
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

int calls = 0;
void differs(void* out, const void* a, const void* b, std::size_t elements) {
  ++calls;
  for (std::size_t i = 0; i < elements; ++i)
    static_cast<float*>(out)[i] = static_cast<const float*>(a)[i] - static_cast<const float*>(b)[i];
}

TEST(GlooReduction, WhatIsNoneIsAskedOnceAndLeftAlone) {
  KnownReductions known;
  calls = 0;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(known.of(differs, 4));
  EXPECT_EQ(calls, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ((known.of(reduces<DType::float32, Op::max>, 4)->op), Op::max);
}

TEST(GlooReduction, AFunctionObjectWithAStateIsNotCalled) {
  KnownReductions known;
  const double factor[4] = {0.5, 1, 2, 3};  // too large to lie in the object itself
  calls = 0;
  auto scaled = [factor](void* out, const void* a, const void* b, std::size_t elements) {
    differs(out, a, b, elements);
    static_cast<float*>(out)[0] *= static_cast<float>(factor[0]);
  };
  EXPECT_FALSE(known.of(scaled, 4));
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace ddl::gloo
