#include "core/gradient/residual.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddl {
namespace {

template <class T>
void keeps_what_is_not_sent(DType type) {
  for (Elements count : {Elements{1}, kChunk - 1, kChunk, 3 * kChunk, 3 * kChunk + 17}) {
    Residual residual(count, type);
    std::vector<T> gradient(count), put(count, 42);
    for (Elements i = 0; i < count; ++i) gradient[i] = static_cast<T>(i % 2 ? -2 : 1);
    std::vector<float> norms(residual.chunks());
    residual.add(gradient.data(), norms);
    residual.add(gradient.data(), norms);
    for (std::size_t chunk = 0; chunk < norms.size(); ++chunk) {
      const Elements n = std::min(kChunk, count - chunk * kChunk);
      EXPECT_EQ(norms[chunk], 2.0F * static_cast<float>((n + 1) / 2 + 2 * (n / 2)));
    }
    const std::vector<std::uint32_t> last = {static_cast<std::uint32_t>(norms.size() - 1)};
    std::vector<T> packed(kChunk, 42);
    residual.take(last, packed.data());
    put_chunks(type, put.data(), count, last, packed.data());
    const Elements sent = last[0] * kChunk;
    for (Elements i = 0; i < count; ++i) ASSERT_EQ(put[i], i < sent ? 0 : 2 * gradient[i]) << i;
    for (Elements i = count - sent; i < kChunk; ++i) ASSERT_EQ(packed[i], 0) << "behind the end";
    residual.add(gradient.data(), norms);
    for (std::uint32_t chunk = 0; chunk < norms.size(); ++chunk) {
      residual.take(std::vector{chunk}, packed.data());
      for (Elements i = 0; i < kChunk && chunk * kChunk + i < count; ++i)
        ASSERT_EQ(packed[i], (chunk == last[0] ? 1 : 3) * gradient[chunk * kChunk + i]);
    }
  }
}

TEST(Residual, KeepsWhatIsNotSentAndAddsItToTheNext) {
  keeps_what_is_not_sent<float>(DType::float32);
  keeps_what_is_not_sent<double>(DType::float64);
}

// Chunk 0 travels each time that not all do, chunk 1 waits.
TEST(Residual, AVelocityGoesOnWhereAllTravelsAndStopsWhereOnlyThatDoes) {
  Residual residual(2 * kChunk, DType::float32, 0.5);
  EXPECT_EQ(residual.bytes(), 2 * 2 * kChunk * sizeof(float));
  const std::vector<float> gradient(2 * kChunk, 8);
  std::vector<float> norms(2), packed(2 * kChunk);
  auto sent = [&](std::vector<std::uint32_t> chunks) {
    residual.add(gradient.data(), norms);
    residual.take(chunks, packed.data());
    return std::vector<float>{packed[0], packed[kChunk]};
  };
  EXPECT_EQ(sent({0, 1}), (std::vector<float>{8, 8}));
  EXPECT_EQ(sent({0, 1}), (std::vector<float>{12, 12}));
  EXPECT_EQ(sent({0})[0], 14);  // and 14 wait in chunk 1
  EXPECT_EQ(sent({0})[0], 8);   // 15 more
  EXPECT_EQ(norms[1], 29.0F * kChunk);
  EXPECT_EQ(sent({0, 1}), (std::vector<float>{8, 29 + 15.5}));
}

TEST(Residual, ANormTellsOfANaN) {
  Residual residual(2 * kChunk, DType::float32);
  std::vector<float> gradient(2 * kChunk, 1), norms(2);
  gradient[kChunk + 5] = std::numeric_limits<float>::quiet_NaN();
  residual.add(gradient.data(), norms);
  EXPECT_EQ(norms[0], 1024);
  EXPECT_TRUE(std::isnan(norms[1]));
}

}  // namespace
}  // namespace ddl
