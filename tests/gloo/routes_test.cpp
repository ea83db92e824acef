#include "interpose/gloo/routes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace ddl::gloo {
namespace {

using Library = TagTuner::Library;

// Where threads that stand for ranks meet, by key.
class MeetingPlace {
 public:
  explicit MeetingPlace(int ranks) : ranks_(ranks) {}

  void meet(std::pair<Routes::Tag, int> key, std::span<std::int64_t> numbers) {
    std::unique_lock lock(mutex_);
    Round& round = rounds_[key];
    round.most.resize(numbers.size(), INT64_MIN);
    std::transform(numbers.begin(), numbers.end(), round.most.begin(), round.most.begin(),
                   [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    if (++round.came == ranks_) all_came_.notify_all();
    all_came_.wait(lock, [&] { return round.came == ranks_; });
    std::copy(round.most.begin(), round.most.end(), numbers.begin());
  }

 private:
  struct Round {
    int came = 0;
    std::vector<std::int64_t> most;
  };
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable all_came_;
  std::map<std::pair<Routes::Tag, int>, Round> rounds_;
};

// Ranks whose calls are popped from a queue by two threads each, and which library did each.
class Ranks {
 public:
  Ranks(int ranks, Routes::Tag tags, Nanoseconds ours, Nanoseconds theirs, Nanoseconds age)
      : tags_(tags), ours_(ours), theirs_(theirs), place_(ranks), budget_(now() - age) {
    for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<Rank>(budget_, tags));
    std::vector<std::thread> threads;
    for (int t = 0; t < 2 * ranks; ++t)
      threads.emplace_back([this, t, ranks] { work(*ranks_[static_cast<std::size_t>(t % ranks)]); });
    for (std::thread& thread : threads) thread.join();
  }

  void expect_alike() const {
    for (const auto& rank : ranks_) EXPECT_EQ(rank->made, ranks_[0]->made);
  }
  std::size_t count(Library library) const {
    const auto& made = ranks_[0]->made;
    return static_cast<std::size_t>(std::count(made.begin(), made.end(), library));
  }
  Library last() const { return ranks_[0]->made.back(); }

 private:
  struct Rank {
    Routes routes;
    std::atomic<Routes::Tag> next = 0;
    std::vector<Library> made;
    Rank(TrialBudget& budget, Routes::Tag tags) : routes(budget), made(tags) {}
  };

  void work(Rank& rank) {
    for (Routes::Tag tag = rank.next++; tag < tags_; tag = rank.next++) {
      const Routes::Choice route = rank.routes.begin(7, tag, [&](std::span<std::int64_t> numbers, int talk) {
        place_.meet({tag, talk}, numbers);
        return true;
      });
      place_.meet({tag, -1}, {});  // a collective
      rank.made[tag] = route.library;
      const Nanoseconds end = now() + (route.library == Library::engine ? ours_ : theirs_);
      while (route.measures && now() < end) std::this_thread::yield();
      rank.routes.end(route);
    }
  }

  const Routes::Tag tags_;
  const Nanoseconds ours_, theirs_;
  MeetingPlace place_;
  TrialBudget budget_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

constexpr Nanoseconds kMs = 1'000'000, kDay = 86400'000 * kMs;

TEST(GlooRoutes, AllRanksMakeEveryCallAlikeAndTheFasterLibraryWins) {
  const Ranks slower(3, 5000, kMs, 20 * kMs, kDay);
  slower.expect_alike();
  EXPECT_EQ(slower.last(), Library::engine);
  EXPECT_GE(slower.count(Library::original), 1u);
  EXPECT_LE(slower.count(Library::original), 6u) << "no more than tries";
  const Ranks faster(3, 5000, 20 * kMs, kMs, kDay);
  faster.expect_alike();
  EXPECT_EQ(faster.last(), Library::original);
}

TEST(GlooRoutes, NobodyIsAheadOfAVerdict) {
  for (int i = 0; i < 20; ++i) Ranks(3, 2000, kMs / 5, kMs / 50, kDay).expect_alike();
}

TEST(GlooRoutes, AShortJobTriesNothing) {
  const Ranks ranks(2, 3000, 0, 20 * kMs, 0);  // so far apart that no other load turns it round
  ranks.expect_alike();
  EXPECT_LE(ranks.count(Library::original), 6u);
}

TEST(GlooRoutes, WhereTheEngineHasFailedCallsFail) {
  TrialBudget budget(now());
  Routes routes(budget);
  int failed = 0;
  for (Routes::Tag tag = 0; tag < 1000; ++tag)
    failed += routes.begin(1, tag, [](std::span<std::int64_t>, int) { return false; }).failed;
  EXPECT_GE(failed, 10);
}

}  // namespace
}  // namespace ddl::gloo
