#include "core/session/key_counts.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(KeyCounts, EachKeyIsCountedByItself) {
  KeyCounts counts;
  for (std::uint32_t times = 0; times < 3; ++times)
    for (std::uint64_t key : {0ull, 1ull, 511ull, 512ull, 1ull << 15, 7ull + (1ull << 15), 1ull << 40, ~0ull})
      EXPECT_EQ(counts.count(key), times) << key;
  EXPECT_EQ(counts.count(7), 0u);
}

TEST(KeyCounts, TheOrderOfDifferentKeysDoesNotMatter) {
  KeyCounts forward, backward;
  constexpr std::uint64_t kKeys = 200'000;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_EQ(forward.count(key * 37), 0u);
    ASSERT_EQ(backward.count((kKeys - 1 - key) * 37), 0u);
  }
  for (std::uint64_t key = 0; key < kKeys; ++key)
    ASSERT_EQ(forward.count(key * 37), backward.count(key * 37));
}

TEST(KeyCounts, OneThatIsUsedAgainAndAgainStaysAndOldOnesAreForgotten) {
  KeyCounts counts;
  counts.count(1);
  std::uint32_t times = 0;
  for (std::uint64_t page = 1; page <= 3 * KeyCounts::kMostPages; ++page) {
    EXPECT_EQ(counts.count(page * KeyCounts::kKeysPerPage), 0u);
    ASSERT_EQ(counts.count(2), times++);
    if (page == KeyCounts::kMostPages / 2) {
      EXPECT_EQ(counts.count(KeyCounts::kKeysPerPage), 1u);
    }
  }
  EXPECT_EQ(counts.count(KeyCounts::kKeysPerPage), 0u);
}

}  // namespace
}  // namespace ddl
