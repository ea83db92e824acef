#include "core/session/identity.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ddl {

// All that is made of ten communicators in a hundred creations each, with up to twenty parts.
TEST(Identity, WhatIsMadeDifferentlyIsNamedDifferently) {
  std::set<CommId> seen;
  std::size_t made = 0;
  for (CommId parent = 0; parent < 10; ++parent)
    for (std::uint64_t number = 0; number < 100; ++number)
      for (std::uint64_t which = 0; which < 20; ++which, ++made)
        seen.insert(identity_of(parent, number, which));
  EXPECT_EQ(seen.size(), made);
  for (CommId parent = 0; parent < 10; ++parent) EXPECT_EQ(seen.count(parent), 0u) << "it names itself";
}

// A child's creations are not its parent's, nor its sister's.
TEST(Identity, GenerationsAreToldApart) {
  std::set<CommId> seen;
  std::size_t made = 0;
  for (std::uint64_t first = 1; first < 40; ++first) {
    const CommId child = identity_of(1, first, 0);
    made += seen.insert(child).second;
    for (std::uint64_t second = 1; second < 40; ++second)
      made += seen.insert(identity_of(child, second, 0)).second;
  }
  EXPECT_EQ(made, 39u + 39 * 39);
}

TEST(Identity, EverybodyDerivesTheSame) {
  constexpr CommId at_compile_time = identity_of(7, 8, 9);
  EXPECT_EQ(identity_of(7, 8, 9), at_compile_time);
}

}  // namespace ddl
