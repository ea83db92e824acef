#include "core/collective/core_balance.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <memory>
#include <set>

#include "core/base/cpu_set.hpp"

namespace ddl {
namespace {

using Cpus = std::vector<int>;

std::optional<int> better(std::size_t me, const Cpus& cpu_of, const Cpus& usable,
                          const std::set<std::size_t>& staying = {}) {
  std::vector<PlaceOfRank> ranks;
  for (int cpu : cpu_of) ranks.push_back({cpu, staying.contains(ranks.size())});
  return better_cpu(me, ranks, usable);
}

TEST(CoreBalance, TheLastOfTooManyMoves) {
  const Cpus three_and_one{0, 0, 1, 0}, both{0, 1};
  EXPECT_EQ(better(3, three_and_one, both), 1);
  for (std::size_t other : {0, 1, 2}) EXPECT_EQ(better(other, three_and_one, both), std::nullopt) << other;
  EXPECT_EQ(better(1, three_and_one, both, {3}), 1) << "the last one stays";
  EXPECT_EQ(better(0, three_and_one, both, {3}), std::nullopt);
}

TEST(CoreBalance, NobodyMovesWhereOneMoreIsAsGood) {
  EXPECT_EQ(better(3, {0, 0, 1, 1}, {0, 1}), std::nullopt);
  EXPECT_EQ(better(2, {0, 1, 0}, {0, 1}), std::nullopt);
  EXPECT_EQ(better(2, {-1, -1, 0}, {0, 1}), std::nullopt) << "nobody knows where the others are";
}

TEST(CoreBalance, OneThatMayNotMoveStays) {
  EXPECT_EQ(better(3, {0, 0, 0, 0}, {0}), std::nullopt);
  EXPECT_EQ(better(3, {0, 0, 0, 0}, {}), std::nullopt);
}

TEST(CoreBalance, ThoseOfSeveralCpusMoveToDifferentOnes) {
  const Cpus pairs{0, 0, 1, 1, 2, 2}, all{0, 1, 2, 3, 4, 5};
  std::set<int> chosen;
  for (std::size_t last : {1, 3, 5}) chosen.insert(better(last, pairs, all).value());
  EXPECT_EQ(chosen, (std::set{3, 4, 5}));
}

// Three ranks, the others where this one is, which looks for another place at most once.
class CoreBalanceOfThree : public testing::Test {
 protected:
  static constexpr Nanoseconds kHour = 3'600'000'000'000;
  void SetUp() override {
    ASSERT_TRUE(before_.read());
    if (usable_cpus().size() < 2) GTEST_SKIP() << "this process may use one CPU only";
    for (auto& one : activity_) one = std::make_unique<Activity>();
  }
  /// The CPU where they are, and where this rank says it is after one look.
  std::pair<int, int> look() {
    if (!balance_)
      balance_.emplace(std::vector{activity_[0].get(), activity_[1].get(), activity_[2].get()}, 2, kHour);
    const int here = sched_getcpu();
    for (auto& one : activity_) one->cpu = here + 1;
    for (int call = 0; call < 32; ++call) balance_->look_now_and_then();
    return {here, std::abs(activity_[2]->cpu) - 1};
  }
  /// The kernel may move it in the middle of a look.
  bool moves() {
    for (int attempt = 0; attempt < 10; ++attempt) {
      balance_.reset();
      if (const auto [from, to] = look(); from != to && sched_getcpu() == to) return true;
    }
    return false;
  }
  bool is_where_it_was_free() const {
    CpuSet after;
    return after.read() && after == before_;
  }

  CpuSet before_;
  std::unique_ptr<Activity> activity_[3];
  std::optional<CoreBalance> balance_;
};

TEST_F(CoreBalanceOfThree, WhoMovesMayRunWhereItCouldBefore) {
  EXPECT_TRUE(moves());
  EXPECT_TRUE(is_where_it_was_free());
  EXPECT_LT(activity_[2]->cpu, 0) << "it stays there for a while, others may move";
}

TEST_F(CoreBalanceOfThree, WhoIsMovedBackStaysForAWhile) {
  ASSERT_TRUE(moves());
  for (int looks = 0; looks < 100; ++looks) {
    look();
    ASSERT_LT(activity_[2]->cpu, 0);
  }
  balance_.reset();
  EXPECT_EQ(activity_[2]->cpu, 0) << "who is gone is nowhere";
}

TEST_F(CoreBalanceOfThree, WhoIsBoundSaysSo) {
  look();
  balance_.reset();
  balance_.emplace(std::vector{activity_[0].get(), activity_[1].get(), activity_[2].get()}, 2, kHour);
  CpuSet here;
  here.add(sched_getcpu());
  ASSERT_TRUE(here.apply());
  const auto [from, to] = look();
  EXPECT_EQ(from, to);
  EXPECT_LT(activity_[2]->cpu, 0);
  CpuSet after;
  EXPECT_TRUE(after.read() && after == here);
  before_.apply();
}

}  // namespace
}  // namespace ddl
