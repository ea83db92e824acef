#include "core/stream/host_work.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace ddl {
namespace {

using Scale = StreamCall::Scale;

template <class T>
Scalar factor_of(T value) {
  Scalar scalar{};
  std::memcpy(scalar.data(), &value, sizeof value);
  return scalar;
}

// An all-reduce of `ranks` equal ranks, noting what it was asked.
struct Sums {
  Rank ranks;
  std::vector<Call> asked = {};
  std::vector<WireFormat> wires = {};

  std::string operator()(const Call& call, const WireFormat& wire) {
    asked.push_back(call);
    wires.push_back(wire);
    for (Elements i = 0; i < call.count; ++i)
      if (call.type == DType::float32)
        static_cast<float*>(call.out)[i] = static_cast<float>(ranks) * static_cast<const float*>(call.in)[i];
      else
        static_cast<std::int32_t*>(call.out)[i] = ranks * static_cast<const std::int32_t*>(call.in)[i];
    return {};
  }
};

// Three calls of 100, 60 and 40 elements, as one.
HostCall three(DType type, Scale scale, std::vector<Scalar> scalars) {
  HostCall what;
  what.call.count = 200;
  what.call.type = type;
  what.call.scale = scale;
  what.shares = {{100, scalars[0]}, {60, scalars[1]}, {40, scalars[2]}};
  what.lengths = 99;
  return what;
}

// In chunks of so many elements.
template <class T>
std::vector<T> done(HostWork& work, const HostCall& what, const std::vector<T>& in, std::size_t chunk) {
  std::vector<T> out(in.size());
  for (std::size_t at = 0; at < in.size(); at += chunk) {
    const std::size_t n = std::min(chunk, in.size() - at);
    EXPECT_EQ(
        work(what, {std::as_bytes(std::span(in).subspan(at, n)),
                    std::as_writable_bytes(std::span(out).subspan(at, n)), at * sizeof(T), n * sizeof(T)}),
        "");
  }
  return out;
}

TEST(HostWork, EachOfSeveralCallsHasItsOwnFactorWhereverChunksEnd) {
  Sums sums{3};
  HostWork work(0, 3, std::ref(sums));
  const HostCall what =
      three(DType::int32, Scale::times_scalar,
            {factor_of<std::int32_t>(2), factor_of<std::int32_t>(5), factor_of<std::int32_t>(-1)});
  std::vector<std::int32_t> in(200), expected(200);
  for (std::size_t i = 0; i < 200; ++i) {
    in[i] = static_cast<std::int32_t>(i);
    expected[i] = 3 * in[i] * (i < 100 ? 2 : i < 160 ? 5 : -1);
  }
  for (std::size_t chunk : {1u, 64u, 99u, 100u, 101u, 130u, 200u})
    EXPECT_EQ(done(work, what, in, chunk), expected) << chunk;
}

TEST(HostWork, HalfTypesOfSeveralCallsAreMultipliedAndAveragedInFloat32) {
  Sums sums{4};
  HostWork work(0, 4, std::ref(sums));
  const Scalar two = factor_of(float_to_half(2)), three_times = factor_of(float_to_half(3)),
               half = factor_of(float_to_half(.5f));
  std::vector<std::uint16_t> in(200), multiples(200);
  for (std::size_t i = 0; i < 200; ++i) {
    const auto number = static_cast<float>(i);
    in[i] = float_to_half(number);
    multiples[i] = float_to_half(4 * number * (i < 100 ? 2.f : i < 160 ? 3.f : .5f));
  }
  for (std::size_t chunk : {64u, 200u}) {
    EXPECT_EQ(done(work, three(DType::float16, Scale::times_scalar, {two, three_times, half}), in, chunk),
              multiples);
    EXPECT_EQ(done(work, three(DType::float16, Scale::average, {{}, {}, {}}), in, chunk), in);
  }
  for (const Call& call : sums.asked) EXPECT_EQ(call.type, DType::float32);
}

TEST(HostWork, OthersSeeTheWholeAndItsSharesInEveryPiece) {
  Sums sums{2};
  HostWork work(0, 2, std::ref(sums));
  HostCall what = three(DType::float32, Scale::none, {{}, {}, {}});
  what.wire = {DType::float32, WireType::bfloat16};
  done(work, what, std::vector<float>(200, 1), 128);
  ASSERT_EQ(sums.asked.size(), 2u);
  HostCall other = what;
  other.lengths = 98;
  done(work, other, std::vector<float>(200, 1), 128);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(sums.asked[i].whole, 200u);
    EXPECT_EQ(sums.wires[i], what.wire);
    EXPECT_NE(fingerprint_of(sums.asked[i]), fingerprint_of(sums.asked[i + 2]));
  }
}

}  // namespace
}  // namespace ddl
