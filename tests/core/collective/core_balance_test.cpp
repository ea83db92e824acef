#include "core/collective/core_balance.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>

namespace ddl {
namespace {

using Cpus = std::vector<int>;

TEST(CoreBalance, TheLastOfTooManyMoves) {
  const Cpus three_and_one{0, 0, 1, 0}, both{0, 1};
  EXPECT_EQ(better_cpu(3, three_and_one, both), 1);
  for (std::size_t other : {0, 1, 2})
    EXPECT_EQ(better_cpu(other, three_and_one, both), std::nullopt) << other;
  EXPECT_EQ(better_cpu(2, Cpus{5, 5, 5}, Cpus{4, 5, 6}), 4);
}

TEST(CoreBalance, NobodyMovesWhereOneMoreIsAsGood) {
  EXPECT_EQ(better_cpu(3, Cpus{0, 0, 1, 1}, Cpus{0, 1}), std::nullopt);
  EXPECT_EQ(better_cpu(2, Cpus{0, 1, 0}, Cpus{0, 1}), std::nullopt);
  EXPECT_EQ(better_cpu(2, Cpus{-1, -1, 0}, Cpus{0, 1}), std::nullopt) << "nobody knows where the others are";
}

TEST(CoreBalance, OneThatMayNotMoveStays) {
  EXPECT_EQ(better_cpu(3, Cpus{0, 0, 0, 0}, Cpus{0}), std::nullopt);
  EXPECT_EQ(better_cpu(3, Cpus{0, 0, 0, 0}, Cpus{}), std::nullopt);
}

// Three ranks, the others where this one is.
class CoreBalanceOfThree : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    if (CPU_COUNT(&before_) < 2) GTEST_SKIP() << "this process may use one CPU only";
    for (auto& one : activity_) one = std::make_unique<Activity>();
  }
  void stand_together() {
    for (auto& one : activity_) one->cpu = sched_getcpu() + 1;
  }
  void make_calls() {
    for (int call = 0; call < 1000; ++call) balance().look_now_and_then();
  }
  CoreBalance& balance() {
    if (!balance_)
      balance_.emplace(std::vector{activity_[0].get(), activity_[1].get(), activity_[2].get()}, 2);
    return *balance_;
  }
  bool has_left() const { return activity_[2]->cpu != activity_[0]->cpu; }

  cpu_set_t before_;
  std::unique_ptr<Activity> activity_[3];
  std::optional<CoreBalance> balance_;
};

TEST_F(CoreBalanceOfThree, WhoMovesStaysFreeToGoAnywhere) {
  stand_together();
  make_calls();
  EXPECT_TRUE(has_left());
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before_, &after));
}

TEST_F(CoreBalanceOfThree, WhoIsMovedBackStaysForAWhile) {
  stand_together();
  make_calls();
  stand_together();
  make_calls();
  EXPECT_FALSE(has_left());
}

TEST_F(CoreBalanceOfThree, WhoIsBoundStays) {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  ASSERT_EQ(sched_setaffinity(0, sizeof(here), &here), 0);
  stand_together();
  make_calls();
  EXPECT_FALSE(has_left());
  sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace
}  // namespace ddl
