#include "interpose/gloo/reductions.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <stdexcept>

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

TEST(GlooReductions, WhatIsNoneIsAskedOnce) {
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

TEST(GlooReductions, AFunctionOfTheProgramsReducesInPlace) {
  const ReduceFunction function = differs;
  OwnReductionCall call(function);
  const std::array<float, 3> in = {1, 2, 3};
  std::array<float, 3> inout = {10, 20, 30};
  OwnReductionCall::combine(&call, in.data(), inout.data(), 3);
  EXPECT_EQ(inout, (std::array<float, 3>{9, 18, 27}));
  EXPECT_EQ(call.thrown(), "");
}

TEST(GlooReductions, WhatHasThrownIsCalledNoMore) {
  calls = 0;
  const ReduceFunction function = [](void*, const void*, const void*, std::size_t) {
    ++calls;
    throw std::domain_error("on purpose");
  };
  OwnReductionCall call(function);
  float in = 1, inout = 2;
  for (int i = 0; i < 3; ++i) OwnReductionCall::combine(&call, &in, &inout, 1);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(call.thrown(), "the program's reduction has thrown: on purpose");
}

}  // namespace
}  // namespace ddl::gloo
