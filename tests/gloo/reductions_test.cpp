#include "interpose/gloo/reductions.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "core/reduce/reduce.hpp"

namespace ddl::gloo {
namespace {

void maximum(void* out, const void* a, const void* b, std::size_t elements) {
  const std::array<const void*, 2> sources = {a, b};
  reduce(DType::float32, Op::max, out, sources, elements);
}

int calls = 0;
void differs(void* out, const void* a, const void* b, std::size_t elements) {
  ++calls;
  for (std::size_t i = 0; i < elements; ++i)
    static_cast<float*>(out)[i] = static_cast<const float*>(a)[i] - static_cast<const float*>(b)[i];
}

TEST(GlooReductions, WhatIsNoneIsAskedOnceAndLeftAlone) {
  KnownReductions known;
  calls = 0;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(known.of(differs, 4));
  EXPECT_EQ(calls, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ((known.of(maximum, 4)->op), Op::max);
}

TEST(GlooReductions, AFunctionObjectWithAStateIsNotCalled) {
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
