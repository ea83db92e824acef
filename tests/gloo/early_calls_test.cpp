#include "interpose/gloo/early_calls.hpp"

#include <gtest/gtest.h>

namespace ddl::gloo {
namespace {

std::vector<EarlyCalls::List> told_by(std::vector<EarlyCalls*> ranks) {
  std::vector<EarlyCalls::List> lists;
  for (EarlyCalls* rank : ranks) lists.push_back(rank->tell());
  return lists;
}

TEST(GlooEarlyCalls, WhatOneRankHasMadeByGlooTheOthersDoOnceToo) {
  EarlyCalls one, other, late;
  EXPECT_TRUE(one.add(5) && one.add(0) && other.add(6) && other.add(5));
  const auto lists = told_by({&one, &other, &late});
  for (EarlyCalls* rank : {&one, &other, &late}) rank->hear(lists);
  EXPECT_TRUE(one.take(6));
  EXPECT_FALSE(one.take(6));
  EXPECT_FALSE(one.take(5)) << "made already";
  EXPECT_TRUE(one.is_empty());
  EXPECT_TRUE(other.take(0));
  EXPECT_TRUE(other.is_empty());
  EXPECT_TRUE(late.take(0) && late.take(5) && late.take(6));
  EXPECT_FALSE(late.take(7));
  EXPECT_TRUE(late.is_empty());
}

TEST(GlooEarlyCalls, AKeyMayComeSeveralTimes) {
  EarlyCalls one, late;
  EXPECT_TRUE(one.add(3) && one.add(3) && late.add(3));
  const auto lists = told_by({&one, &late});
  late.hear(lists);
  EXPECT_TRUE(late.take(3));
  EXPECT_FALSE(late.take(3));
}

TEST(GlooEarlyCalls, NoneIsAddedOnceTheyAreToldOrTooMany) {
  EarlyCalls calls, full;
  calls.tell();
  EXPECT_FALSE(calls.add(1));
  EXPECT_TRUE(calls.has_told());
  for (std::uint64_t key = 0; key < EarlyCalls::kMost; ++key) EXPECT_TRUE(full.add(key));
  EXPECT_FALSE(full.add(100));
  EXPECT_FALSE(full.has_told());
}

}  // namespace
}  // namespace ddl::gloo
