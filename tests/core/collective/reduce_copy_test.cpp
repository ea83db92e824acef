#include "core/collective/reduce_copy.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

constexpr Elements kCounts[] = {0, 1, 15, 16, 1000, 2048, 4096, 10'001};

// Buffers that start at an odd element, so that no line of them is aligned.
struct Bench {
  std::vector<std::int32_t> a, b, out, forward;
  Elements count;
  explicit Bench(Elements n) : a(n + 1), b(n + 1), out(n + 2, -1), forward(n + 2, -1), count(n) {
    for (Elements i = 0; i <= n; ++i)
      a[i] = static_cast<std::int32_t>(i), b[i] = static_cast<std::int32_t>(7 * i);
  }
  std::byte* at(std::vector<std::int32_t>& v) { return reinterpret_cast<std::byte*>(v.data() + 1); }
  void expect(const std::vector<std::int32_t>& result, std::int32_t factor) const {
    for (Elements i = 1; i <= count; ++i)
      ASSERT_EQ(result[i], factor * static_cast<std::int32_t>(i)) << count;
    EXPECT_EQ(result[0], -1);
    EXPECT_EQ(result[count + 1], -1);
  }
};

}  // namespace

TEST(ReduceCopy, BringsTheSumOrTheCopyToTheOutputAndOnward) {
  for (Elements count : kCounts)
    for (Store store : {Store::cached, Store::streamed})
      for (std::size_t n_sources : {1u, 2u})
        for (bool onward : {false, true}) {
          Bench x(count);
          const void* sources[] = {x.a.data() + 1, x.b.data() + 1};
          apply({DType::int32,
                 Op::sum,
                 {sources, n_sources},
                 x.at(x.out),
                 onward ? x.at(x.forward) : nullptr,
                 count,
                 store});
          x.expect(x.out, n_sources == 1 ? 1 : 8);
          if (onward) x.expect(x.forward, n_sources == 1 ? 1 : 8);
        }
}

TEST(ReduceCopy, ASumThatOnlyGoesOnIsWrittenOnce) {
  const OwnReduction own{[](void*, const void* in, void* inout, Elements count) {
    auto* to = static_cast<std::int32_t*>(inout);
    for (Elements i = 0; i < count; ++i) to[i] += static_cast<const std::int32_t*>(in)[i];
  }};
  for (Elements count : kCounts)
    for (Store store : {Store::cached, Store::streamed})
      for (bool is_own : {false, true}) {
        Bench x(count);
        const void* sources[] = {x.a.data() + 1, x.b.data() + 1};
        apply({DType::int32, Op::sum, sources, nullptr, x.at(x.forward), count, store,
               is_own ? own : OwnReduction{}});
        x.expect(x.forward, 8);
      }
}

TEST(ReduceCopy, TheOutputMayBeOneOfTheSources) {
  for (Store store : {Store::cached, Store::streamed}) {
    Bench x(10'001);
    std::memcpy(x.at(x.out), x.a.data() + 1, x.count * 4);
    const void* sources[] = {x.at(x.out), x.b.data() + 1};
    apply({DType::int32, Op::sum, sources, x.at(x.out), x.at(x.forward), x.count, store});
    x.expect(x.out, 8);
    x.expect(x.forward, 8);
  }
}

// Sources that came from other hosts and from this one, in one fold.
TEST(ReduceCopy, WhatCameNarrowerIsWidenedAndWhatGoesOnIsNarrowed) {
  const WireFormat wire{DType::float32, WireType::bfloat16};
  for (Elements count : kCounts)
    for (std::size_t n_sources : {1u, 2u, 3u})
      for (std::size_t own = 0; own < n_sources; ++own)
        for (int how = 0; how < 16; ++how) {
          const bool rounds = how & 1, goes_on = how & 2, travels = how & 4, streams = how & 8;
          std::vector<std::vector<float>> values(n_sources, std::vector<float>(count));
          std::vector<std::vector<std::uint16_t>> came(n_sources, std::vector<std::uint16_t>(count));
          std::vector<float> expected(count), forward(count, -1);
          std::vector<std::uint16_t> sent(count), expected_sent(count);
          const void* sources[3];
          bool is_narrow[3];
          for (std::size_t s = 0; s < n_sources; ++s) {
            for (Elements i = 0; i < count; ++i) values[s][i] = 1 + static_cast<float>(i * (s + 1)) / 1024;
            is_narrow[s] = s != own;
            if (is_narrow[s])
              for (Elements i = 0; i < count; ++i) {
                came[s][i] = float_to_bfloat16(values[s][i]);
                values[s][i] = bfloat16_to_float(came[s][i]);
              }
            sources[s] = is_narrow[s] ? static_cast<const void*>(came[s].data()) : values[s].data();
          }
          for (Elements i = 0; i < count; ++i) {
            for (std::size_t s = 0; s < n_sources; ++s)
              expected[i] = s ? expected[i] + values[s][i] : values[s][i];
            expected_sent[i] = float_to_bfloat16(expected[i]);
            if (rounds) expected[i] = bfloat16_to_float(expected_sent[i]);
          }
          auto bytes = [](auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
          const Narrowing narrowing{wire, {is_narrow, n_sources}, rounds, travels ? bytes(sent) : nullptr};
          apply({DType::float32,
                 Op::sum,
                 {sources, n_sources},
                 bytes(values[own]),
                 goes_on ? bytes(forward) : nullptr,
                 count,
                 streams ? Store::streamed : Store::cached,
                 {},
                 &narrowing});
          ASSERT_EQ(values[own], expected) << n_sources << " sources, own " << own << ", " << how;
          if (goes_on) {
            ASSERT_EQ(forward, expected);
          }
          if (travels) {
            ASSERT_EQ(sent, expected_sent);
          }
        }
}

// The answer in the block that was asked in, and an output that begins at no line: as between two ranks.
TEST(ReduceCopy, WhatTravelsMayTakeThePlaceOfWhatCame) {
  for (WireType type : {WireType::bfloat16, WireType::float16, WireType::int8})
    for (Elements count : kCounts)
      for (Store store : {Store::cached, Store::streamed}) {
        const WireFormat wire{DType::float32, type, WireWhere::everywhere};
        std::vector<float> own(count), theirs(count), wide(count), out(count + 2, -1), expected(count);
        for (Elements i = 0; i < count; ++i)
          own[i] = 1 + static_cast<float>(i) / 1024, theirs[i] = 3 - static_cast<float>(i) / 4096;
        std::vector<std::byte> block(wire.bytes(count)), sent(wire.bytes(count));
        stage(wire, block.data(), reinterpret_cast<std::byte*>(theirs.data()), count, store);
        widen(wire, wide.data(), block.data(), count);
        for (Elements i = 0; i < count; ++i) expected[i] = own[i] + wide[i];
        narrow(wire, sent.data(), expected.data(), count);
        widen(wire, expected.data(), sent.data(), count);
        const void* sources[] = {own.data(), block.data()};
        const bool is_narrow[] = {false, true};
        const Narrowing narrowing{wire, is_narrow, true, block.data()};
        apply({DType::float32,
               Op::sum,
               sources,
               reinterpret_cast<std::byte*>(out.data() + 1),
               nullptr,
               count,
               store,
               {},
               &narrowing});
        ASSERT_EQ(std::vector<float>(out.begin() + 1, out.end() - 1), expected) << name_of(type);
        ASSERT_EQ(block, sent) << name_of(type);
        EXPECT_EQ(out[0], -1);
        EXPECT_EQ(out[count + 1], -1);
      }
}

TEST(Stream, CopiesAnyNumberOfBytesFromAndToAnyAddress) {
  std::vector<unsigned char> from(400), to;
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 7 + 1);
  for (std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 200u, 256u})
    for (std::size_t offset = 0; offset < 70; offset += 3) {
      to.assign(400, 0);
      stream(to.data() + offset, from.data() + 5, bytes);
      EXPECT_EQ(std::memcmp(to.data() + offset, from.data() + 5, bytes), 0);
      EXPECT_EQ(to[offset + bytes], 0);
    }
}

}  // namespace ddl
