// All-reduces whose right result every test can tell.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "core/base/types.hpp"

namespace ddl::test {

/// The ranks of a communicator of all.
inline std::vector<Rank> everybody(Rank size) {
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Small whole numbers, so that sums are exact whatever the order.
inline float share(Rank rank, Elements i, std::uint32_t salt) {
  return static_cast<float>((static_cast<Elements>(rank) * 31 + i * 7 + salt) % 64);
}

inline void expect_sum(const std::vector<float>& out, const std::vector<Rank>& members, std::uint32_t salt) {
  for (Elements i = 0; i < out.size(); ++i) {
    float sum = 0;
    for (Rank member : members) sum += share(member, i, salt);
    ASSERT_EQ(out[i], sum) << "element " << i << " of " << out.size();
  }
}

inline std::vector<float> shares(Rank rank, Elements count, std::uint32_t salt) {
  std::vector<float> values(count);
  for (Elements i = 0; i < count; ++i) values[i] = share(rank, i, salt);
  return values;
}

}  // namespace ddl::test
