#include "core/base/recycler.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace ddl {
namespace {

struct Number {
  int value = 0;
};
using Numbers = Recycler<Number>;

}  // namespace

TEST(Recycler, WhatCameBackIsGivenOutAgainAsItWas) {
  Numbers numbers;
  Numbers::Entry& first = numbers.take();
  first.value = 7;
  first.release();
  EXPECT_EQ(&numbers.take(), &first);
  EXPECT_EQ(first.value, 7);
}

TEST(Recycler, WhatIsOutIsNobodyElses) {
  Numbers numbers;
  std::set<Numbers::Entry*> out;
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(out.insert(&numbers.take()).second);
  Numbers::Entry* last = &numbers.take();
  last->release();
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(out.count(&numbers.take())) << "the oldest is still out";
}

TEST(Recycler, InTheOrderOfGivingOutNoMoreAreMadeThanAreOut) {
  constexpr std::size_t kOut = 5;
  Numbers numbers;
  std::vector<Numbers::Entry*> queue;
  std::set<Numbers::Entry*> all;
  for (int round = 0; round < 100; ++round) {
    queue.push_back(&numbers.take());
    all.insert(queue.back());
    if (queue.size() < kOut) continue;
    queue.front()->release();
    queue.erase(queue.begin());
  }
  EXPECT_EQ(all.size(), kOut);
}

TEST(Recycler, AnotherThreadMayRelease) {
  Numbers numbers;
  for (int round = 0; round < 1000; ++round) {
    Numbers::Entry& one = numbers.take();
    one.value = round;
    std::jthread([&one, round] {
      EXPECT_EQ(one.value, round);
      one.release();
    });
  }
}

}  // namespace ddl
