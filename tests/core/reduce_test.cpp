// Every kernel of every instruction set this CPU runs, against a plain reference written without any of their
// code.
#include "core/reduce/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/reduce/kernel_table.hpp"
#include "tests/core/reduce_reference.hpp"

namespace ddl {
namespace {

constexpr Elements kCounts[] = {0, 1, 2, 3, 7, 16, 64, 1000, 4099};
constexpr std::size_t kMaxSources = 5;

using kernels::Table;
using test::Buffer;
using test::decode_16;
using test::encode_16;
using test::reference;

// ---- inputs
// -----------------------------------------------------------------------------------------------------

/// Integers: any bits, and enough zeros for the logical operations. Floats: values whose sums need rounding,
/// plus zeros of both signs and infinities of one sign (no NaN can arise but by 0 × inf).
Buffer random_buffer(DType type, Elements count, std::mt19937_64& random) {
  Buffer buffer(count * size_of(type));
  for (Elements i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    bool rare = random() % 8 == 0;
    if (is_floating(type)) {
      double value = std::ldexp(static_cast<double>(bits >> 11), -53 + static_cast<int>(random() % 12) - 6);
      if (bits & 1) value = -value;
      if (rare)
        value = bits & 2 ? -0.0 : bits & 4 ? 0.0 : bits & 56 ? 1.0 : std::numeric_limits<double>::infinity();
      if (type == DType::float64) bits = std::bit_cast<std::uint64_t>(value);
      if (type == DType::float32) bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      if (type == DType::float16) bits = encode_16(value, 5);
      if (type == DType::bfloat16) bits = encode_16(value, 8);
    } else if (rare) {
      bits = 0;
    }
    std::memcpy(buffer.data() + i * size_of(type), &bits, size_of(type));
  }
  return buffer;
}

/// Byte-wise equality; two NaNs of the type are equal whatever their payloads.
bool same_elements(DType type, const std::byte* a, const Buffer& b) {
  if (b.empty() || std::memcmp(a, b.data(), b.size()) == 0) return true;
  if (!is_floating(type)) return false;
  auto value = [&](const std::byte* at) -> double {
    std::uint64_t bits = 0;
    std::memcpy(&bits, at, size_of(type));
    if (type == DType::float64) return std::bit_cast<double>(bits);
    if (type == DType::float32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    return decode_16(static_cast<std::uint16_t>(bits), type == DType::float16 ? 5 : 8);
  };
  for (std::size_t i = 0; i < b.size(); i += size_of(type))
    if (std::memcmp(a + i, b.data() + i, size_of(type)) != 0 &&
        !(std::isnan(value(a + i)) && std::isnan(value(b.data() + i))))
      return false;
  return true;
}

/// A copy of a buffer at `shift` bytes past an aligned address. A guard behind it shows stray writes; with
/// the address sanitizer there is none, so that stray reads show as well.
class Placed {
 public:
  Placed(const Buffer& content, std::size_t shift)
      : shift_(shift), size_(content.size()), memory_(new std::byte[shift + size_ + kGuard]) {
    std::copy(content.begin(), content.end(), data());
    std::fill_n(data() + size_, kGuard, std::byte{0x5a});
  }
  std::byte* data() { return memory_.get() + shift_; }
  bool guard_intact() {
    for (std::size_t i = 0; i < kGuard; ++i)
      if (data()[size_ + i] != std::byte{0x5a}) return false;
    return true;
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t kGuard = 0;
#else
  static constexpr std::size_t kGuard = 64;
#endif
  std::size_t shift_, size_;
  std::unique_ptr<std::byte[]> memory_;
};

constexpr std::size_t kSeparate = kMaxSources;  // `aliased` for a destination of its own

/// Runs one kernel with dst = source `aliased` and compares all buffers afterwards.
void check_kernel(const Table& table, DType type, Op op, const std::vector<Buffer>& sources,
                  const Buffer& expected, std::size_t aliased, std::size_t shift) {
  Elements count = expected.size() / size_of(type);
  std::vector<Placed> placed;
  std::vector<const void*> pointers;
  for (std::size_t s = 0; s < sources.size(); ++s)
    placed.emplace_back(sources[s], shift == 0 ? 0 : shift + s);
  for (Placed& p : placed) pointers.push_back(p.data());
  Placed separate(Buffer(expected.size(), std::byte{0xee}), shift);
  Placed& dst = aliased == kSeparate ? separate : placed[aliased];

  table.fold[static_cast<int>(type)][static_cast<int>(op)](dst.data(), pointers.data(), pointers.size(),
                                                           count);

  auto where = [&] {
    return std::string(table.name) + " " + std::string(name_of(type)) + " " + std::string(name_of(op)) +
           " count " + std::to_string(count) + " sources " + std::to_string(sources.size()) + " aliased " +
           std::to_string(aliased) + " shift " + std::to_string(shift);
  };
  ASSERT_TRUE(same_elements(type, dst.data(), expected)) << where();
  ASSERT_TRUE(dst.guard_intact()) << where();
  for (std::size_t s = 0; s < sources.size(); ++s)
    ASSERT_TRUE(s == aliased || expected.empty() ||
                std::memcmp(placed[s].data(), sources[s].data(), sources[s].size()) == 0)
        << where() << ": source " << s << " was written";
}

void check_all_placements(DType type, Op op, Elements count, std::size_t n_sources, std::mt19937_64& random) {
  std::vector<Buffer> sources;
  for (std::size_t s = 0; s < n_sources; ++s) sources.push_back(random_buffer(type, count, random));
  Buffer expected = reference(type, op, sources, count);
  for (const Table* table : kernels::runnable_kernels())
    for (std::size_t shift : {0, 1, 3}) {
      check_kernel(*table, type, op, sources, expected, kSeparate, shift);
      for (std::size_t aliased = 0; aliased < n_sources; ++aliased)
        check_kernel(*table, type, op, sources, expected, aliased, shift);
    }
}

class ReduceKernels : public testing::TestWithParam<DType> {};

TEST_P(ReduceKernels, AgreeWithTheReferenceForEveryOperationCountSourceNumberAndPlacement) {
  DType type = GetParam();
  std::mt19937_64 random(7 + static_cast<unsigned>(type));
  for (int op = 0; op < kOps; ++op)
    for (Elements count : kCounts)
      for (std::size_t n_sources = 1; n_sources <= kMaxSources; ++n_sources) {
        if (!is_reducible(type, static_cast<Op>(op))) continue;
        check_all_placements(type, static_cast<Op>(op), count, n_sources, random);
        if (HasFatalFailure()) return;
      }
}

INSTANTIATE_TEST_SUITE_P(EveryType, ReduceKernels,
                         testing::Values(DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8,
                                         DType::uint16, DType::uint32, DType::uint64, DType::float16,
                                         DType::bfloat16, DType::float32, DType::float64),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(Reduce, IsDefinedExactlyWhereMpiDefinesIt) {
  for (const Table* table : kernels::runnable_kernels())
    for (int type = 0; type < kDTypes; ++type)
      for (int op = 0; op < kOps; ++op)
        EXPECT_EQ(table->fold[type][op] != nullptr,
                  is_reducible(static_cast<DType>(type), static_cast<Op>(op)))
            << table->name << " " << type << " " << op;
}

TEST(Reduce, UsesTheBestRunnableKernelAndRefusesWhatIsNotDefined) {
  EXPECT_STREQ(reduce_kernel_name(), kernels::runnable_kernels().back()->name);
  EXPECT_STREQ(kernels::runnable_kernels().front()->name, "baseline");
  float a[3] = {1, 2, 3}, b[3] = {10, 20, 30};
  const void* sources[] = {a, b};
  reduce(DType::float32, Op::sum, b, sources, 3);
  EXPECT_EQ(b[0], 11);
  EXPECT_EQ(b[1], 22);
  EXPECT_EQ(b[2], 33);
  EXPECT_THROW(reduce(DType::float32, Op::band, b, sources, 3), Error);
  EXPECT_THROW(reduce(DType::float32, Op::sum, b, {}, 3), Error);
}

TEST(Reduce, RoundsSixteenBitSumsOnceAfterAllSources) {
  // 2048 + 1 + 1: each addition alone would round back to 2048 in float16.
  std::uint16_t big = float_to_half(2048), one = float_to_half(1), result = 0;
  const void* sources[] = {&big, &one, &one};
  reduce(DType::float16, Op::sum, &result, sources, 1);
  EXPECT_EQ(half_to_float(result), 2050);
  big = float_to_bfloat16(256), one = float_to_bfloat16(1);
  reduce(DType::bfloat16, Op::sum, &result, sources, 1);
  EXPECT_EQ(bfloat16_to_float(result), 258);
}

TEST(Reduce, TreatsNansAlikeOnEveryInstructionSet) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> a(37, nan), b(37);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i);
  for (const Table* table : kernels::runnable_kernels())
    for (Op op : {Op::sum, Op::prod, Op::min, Op::max}) {
      auto* fold = table->fold[static_cast<int>(DType::float32)][static_cast<int>(op)];
      std::vector<float> first(37), second(37);
      const void *nan_first[] = {a.data(), b.data()}, *nan_second[] = {b.data(), a.data()};
      fold(first.data(), nan_first, 2, 37);
      fold(second.data(), nan_second, 2, 37);
      for (std::size_t i = 0; i < b.size(); ++i) {
        bool comparing = op == Op::min || op == Op::max;  // the second operand wins
        ASSERT_TRUE(comparing ? first[i] == b[i] : std::isnan(first[i])) << table->name << " " << name_of(op);
        ASSERT_TRUE(std::isnan(second[i])) << table->name << " " << name_of(op);
      }
    }
}

}  // namespace
}  // namespace ddl
