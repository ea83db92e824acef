// The loading and launching of our kernels, on the test double, which runs their source on the host: against
// the reductions of core/reduce.
#include "core/device/reduce_kernels.hpp"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/device/kernels_image.hpp"
#include "core/reduce/reduce.hpp"
#include "core/stream/scaling.hpp"
#include "tests/core/device/fake_device.hpp"

namespace ddl {
namespace {

using RawValues = std::vector<std::byte>;

constexpr DType kServed[] = {DType::int8,   DType::uint8,   DType::int32,    DType::uint32,  DType::int64,
                             DType::uint64, DType::float16, DType::bfloat16, DType::float32, DType::float64};

class ReduceKernelsTest : public test::FakeDevice {
 protected:
  void SetUp() override {
    if (kernels_image().empty()) GTEST_SKIP() << "this build has no device kernels";
    ASSERT_NE(kernels(), nullptr) << ReduceKernels::of(cuda_, context_).why;
  }
  const ReduceKernels* kernels() { return ReduceKernels::of(cuda_, context_).kernels; }

  // Every bit pattern, but for NaNs, whose payload is nobody's business, and infinities, whose sums are NaNs.
  RawValues any_values(DType type, Elements count) {
    RawValues bytes(count * size_of(type));
    for (Elements i = 0; i < count; ++i) {
      std::byte* at = bytes.data() + i * size_of(type);
      do {
        std::uint64_t bits = random_();
        std::memcpy(at, &bits, size_of(type));
      } while (is_special(type, at));
    }
    return bytes;
  }
  static bool is_special(DType type, const std::byte* at) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, at, size_of(type));
    if (type == DType::float16) return (bits & 0x7c00) == 0x7c00;
    if (type == DType::bfloat16) return (bits & 0x7f80) == 0x7f80;
    if (type == DType::float32) return (bits & 0x7f800000) == 0x7f800000;
    if (type == DType::float64) return (bits >> 52 & 0x7ff) == 0x7ff;
    return false;
  }

  static RawValues expected(DType type, DeviceOp op, const std::vector<RawValues>& ins, Elements count) {
    RawValues out(count * size_of(type));
    std::vector<const void*> sources;
    for (const RawValues& in : ins) sources.push_back(in.data());
    if (op != DeviceOp::average) {
      reduce(type, static_cast<Op>(op), out.data(), sources, count);
      return out;
    }
    std::vector<std::vector<float>> wide(ins.size(), std::vector<float>(count));
    std::vector<float> sum(count);
    if (is_half(type))
      for (std::size_t s = 0; s < ins.size(); ++s) {
        widen(type, wide[s].data(), ins[s].data(), count);
        sources[s] = wide[s].data();
      }
    DType as = is_half(type) ? DType::float32 : type;
    void* to = is_half(type) ? static_cast<void*>(sum.data()) : out.data();
    reduce(as, Op::sum, to, sources, count);
    divide(as, to, count, static_cast<Rank>(ins.size()));
    if (is_half(type)) narrow(type, out.data(), sum.data(), count);
    return out;
  }

  std::mt19937_64 random_{17};
};

static_assert(static_cast<int>(DeviceOp::sum) == static_cast<int>(Op::sum) &&
              static_cast<int>(DeviceOp::prod) == static_cast<int>(Op::prod) &&
              static_cast<int>(DeviceOp::min) == static_cast<int>(Op::min) &&
              static_cast<int>(DeviceOp::max) == static_cast<int>(Op::max));

TEST_F(ReduceKernelsTest, EveryTypeAndOperationGivesTheBitsOfTheHost) {
  constexpr Elements kCount = 1003;
  cuda::Stream on = stream();
  for (DType type : kServed)
    for (int op = 0; op < kDeviceOps; ++op)
      for (std::size_t ranks : {1, 2, 3, 8, 31}) {
        auto what = static_cast<DeviceOp>(op);
        ASSERT_TRUE(kernels()->has(type, what));
        std::vector<RawValues> ins;
        std::vector<cuda::DevicePointer> from;
        for (std::size_t r = 0; r < ranks; ++r)
          from.push_back(buffer(ins.emplace_back(any_values(type, kCount))));
        // Into two buffers, one of them an input.
        std::vector<cuda::DevicePointer> to = {buffer(kCount * size_of(type)), from.back()};
        ok(kernels()->launch(type, what, from, to, kCount, on));
        ok(cuda_.stream_synchronize(on));
        RawValues right = expected(type, what, ins, kCount);
        for (cuda::DevicePointer out : to) {
          RawValues got = values<std::byte>(out, right.size());
          for (Elements at = 0; at < right.size(); at += size_of(type))
            ASSERT_TRUE(is_special(type, &right[at]) || std::memcmp(&got[at], &right[at], size_of(type)) == 0)
                << name_of(what) << " of " << ranks << " " << name_of(type) << " at " << at / size_of(type);
        }
      }
}

// In packs of their own, and among others: what is divided by a product and what is not.
TEST_F(ReduceKernelsTest, ZerosInfinitiesAndTheLeastAndTheLargestAreAveragedAsTheHostDoes) {
  cuda::Stream on = stream();
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kMost = FLT_MAX / 3;
  const std::vector<float> in = {-0.f,  0.f,       -0.f,      -0.f,       1.f,     -0.f,  1e-40f,
                                 -3.f,  kMost,     kInfinity, -kInfinity, 7.f,     kMost, -kMost,
                                 1e37f, 3e38f / 3, 1e-28f,    3e-38f,     -1e-45f, 0.f};
  const std::vector<cuda::DevicePointer> from(3, buffer(in)), to = {buffer(in.size() * sizeof(float))};
  ok(kernels()->launch(DType::float32, DeviceOp::average, from, to, in.size(), on));
  ok(cuda_.stream_synchronize(on));
  const std::vector<float> got = values<float>(to[0], in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(got[i], (in[i] + in[i] + in[i]) / 3) << i;
    EXPECT_EQ(std::signbit(got[i]), std::signbit(in[i])) << i;
  }
}

// Whole packs or none of them, with and without elements before and behind, and buffers that are not alike.
TEST_F(ReduceKernelsTest, BuffersMayBeginAndEndAnywhere) {
  cuda::Stream on = stream();
  for (DType type : kServed)
    for (Elements shift : {0, 5})
      for (Elements count : {7, 1003})
        for (bool alike : {true, false}) {
          std::vector<RawValues> ins;
          std::vector<cuda::DevicePointer> from;
          for (std::size_t r = 0; r < 2; ++r) {
            const Elements before = shift + (r == 1 && !alike);
            RawValues padded(before * size_of(type)), in = any_values(type, count);
            padded.insert(padded.end(), in.begin(), in.end());
            ins.push_back(std::move(in));
            from.push_back(buffer(padded) + before * size_of(type));
          }
          RawValues around((shift + count + 16) * size_of(type), std::byte{0x5a});
          const cuda::DevicePointer whole = buffer(around);
          ok(kernels()->launch(type, DeviceOp::sum, from, std::vector{whole + shift * size_of(type)}, count,
                               on));
          ok(cuda_.stream_synchronize(on));
          const RawValues right = expected(type, DeviceOp::sum, ins, count),
                          got = values<std::byte>(whole, around.size());
          for (Elements at = 0; at < around.size(); ++at) {
            const bool inside = at >= shift * size_of(type) && at < (shift + count) * size_of(type);
            const Elements element =
                inside ? (at - shift * size_of(type)) / size_of(type) * size_of(type) : 0;
            if (inside && is_special(type, &right[element])) continue;
            ASSERT_EQ(got[at], inside ? right[at - shift * size_of(type)] : around[at])
                << name_of(type) << ", " << count << " elements behind " << shift << ", byte " << at;
          }
        }
}

// Two flags lie where the first and the last block write: raised any sooner, they would be written over.
TEST_F(ReduceKernelsTest, FlagsAreRaisedWhenAllIsWritten) {
  cuda::Stream on = stream();
  constexpr Elements kCount = 10'000;
  const cuda::DevicePointer in = buffer(std::vector<std::uint32_t>(kCount, 5)), out = buffer(kCount * 4),
                            aside = buffer(std::vector<std::uint32_t>(2));
  const std::vector<cuda::DevicePointer> flags = {out, aside, out + (kCount - 1) * 4};
  for (std::uint32_t value : {7u, 8u}) {
    ok(kernels()->launch(DType::uint32, DeviceOp::sum, std::vector{in, in}, {&out, 1}, kCount, on,
                         {flags, value, 7}));
    ok(cuda_.stream_synchronize(on));
    std::vector<std::uint32_t> right(kCount, 10);
    right.front() = right.back() = value;
    EXPECT_EQ(values<std::uint32_t>(out, kCount), right);
    EXPECT_EQ(values<std::uint32_t>(aside, 2), (std::vector<std::uint32_t>{value, 0}));
  }
}

TEST_F(ReduceKernelsTest, IntegersOfSixteenBitsAreLeftToTheHost) {
  EXPECT_FALSE(kernels()->has(DType::int16, DeviceOp::sum));
  EXPECT_FALSE(kernels()->has(DType::uint16, DeviceOp::max));
}

TEST_F(ReduceKernelsTest, TheKernelsOfAContextAreLoadedOnce) {
  unsigned long before = calls_of("cuModuleLoadData");
  EXPECT_EQ(kernels(), kernels());
  EXPECT_EQ(calls_of("cuModuleLoadData"), before);
}

TEST_F(ReduceKernelsTest, ADriverThatRefusesThemIsAValueWithReasonAndCure) {
  cuda::Context other = nullptr;
  ok(cuda_.primary_retain(&other, 1));
  fail("cuModuleLoadData", 1, cuda::kUnsupportedPtxVersion);
  const ReduceKernels::Loaded& loaded = ReduceKernels::of(cuda_, other);
  EXPECT_EQ(loaded.kernels, nullptr);
  EXPECT_EQ(
      loaded.why,
      "the CUDA driver does not load our kernels: CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was "
      "compiled with an unsupported toolchain. (collectives on one GPU are reduced on the host); install a "
      "newer driver, or build with an nvcc that knows both this GPU and driver");
}

TEST_F(ReduceKernelsTest, WhatAKernelWouldFaultOnIsRefused) {
  cuda::Stream on = stream();
  std::vector<cuda::DevicePointer> at = {buffer(4000)}, past = {at[0] + 4}, odd = {at[0] + 2}, none;
  EXPECT_EQ(kernels()->launch(DType::float32, DeviceOp::sum, past, at, 1000, on), cuda::kIllegalAddress);
  EXPECT_EQ(kernels()->launch(DType::float32, DeviceOp::sum, at, odd, 10, on), cuda::kMisalignedAddress);
  EXPECT_EQ(kernels()->launch(DType::float32, DeviceOp::sum, none, at, 10, on), cuda::kInvalidValue);
  std::vector<cuda::DevicePointer> many(kernels::kMostBuffers + 1, at[0]);
  EXPECT_EQ(kernels()->launch(DType::float32, DeviceOp::sum, many, at, 10, on), cuda::kInvalidValue);
  EXPECT_EQ(kernels()->launch(DType::float32, DeviceOp::sum, at, at, 10, on, {many, 1, 0}),
            cuda::kInvalidValue);
  EXPECT_EQ(kernels()->launch(DType::float32, DeviceOp::sum, at, at, 10, on, {at, 1, kernels::kMostRaisers}),
            cuda::kInvalidValue);
  EXPECT_EQ(kernels()->launch(DType::float32, DeviceOp::sum, at, at, 0, on), cuda::kSuccess);
}

// cudaDeviceReset(): the context keeps its name, and what was loaded there is gone.
TEST_F(ReduceKernelsTest, AreLoadedAnewAfterTheDeviceWasReset) {
  cuda::Context other = nullptr;
  ok(cuda_.primary_retain(&other, 2));
  ok(cuda_.context_set(other));
  const ReduceKernels* before = ReduceKernels::of(cuda_, other).kernels;
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(ReduceKernels::of(cuda_, other).kernels, before);
  ok(control<cuda::Result (*)(cuda::Device)>("cuDevicePrimaryCtxReset_v2")(2));
  const ReduceKernels* after = ReduceKernels::of(cuda_, other).kernels;
  ASSERT_NE(after, nullptr);
  ASSERT_NE(after, before);
  cuda::DevicePointer in = buffer(std::vector<float>{1, 2}), out = buffer(8);
  cuda::Stream on = stream();
  ok(after->launch(DType::float32, DeviceOp::sum, {{in, in}}, {{out}}, 2, on));
  ok(cuda_.stream_synchronize(on));
  EXPECT_EQ(values<float>(out, 2), (std::vector<float>{2, 4}));
  EXPECT_EQ(ReduceKernels::of(cuda_, other).kernels, after);
}

}  // namespace
}  // namespace ddl
