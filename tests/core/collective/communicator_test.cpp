#include "core/collective/communicator.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "core/base/error.hpp"
#include "tests/support/hostile_job.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::HostileJob;
using test::Said;
using test::VirtualJob;
using Numbers = std::vector<std::int32_t>;

const PlanLimits kSmallSegments{1, HostileJob::kStaging, 4 << 10, {}};

Numbers numbers(Rank rank, int call, Elements count) {
  Numbers values(count);
  std::iota(values.begin(), values.end(), rank * 1'000'000 + call * 1000);
  return values;
}

// Several all-reduces of one rank, of as many numbers each, started together.
struct Sums {
  Communicator& communicator;
  Engine& engine;
  Rank me;
  std::vector<Numbers> in, out;
  std::vector<std::unique_ptr<Completion>> done;

  Sums(Communicator& where, Engine& by, Rank rank, int calls, Elements count)
      : communicator(where), engine(by), me(rank) {
    for (int call = 0; call < calls; ++call) {
      in.push_back(numbers(rank, call, count));
      out.emplace_back(count, -1);
    }
  }
  ~Sums() { engine.fail("the test is over"); }
  Call call(std::size_t i) { return {in[i].data(), out[i].data(), in[i].size(), DType::int32, Op::sum}; }
  void start() {
    for (std::size_t i = 0; i < in.size(); ++i) done.push_back(test::start(engine, communicator, call(i)));
  }
  void move() {
    for (const auto& one : done) engine.test(*one);
  }
  bool all_done() const {
    return std::all_of(done.begin(), done.end(), [](const auto& one) { return one->done(); });
  }
  void expect_right(Rank ranks) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      for (Elements e = 0; e < out[i].size(); ++e) {
        std::int32_t want = 0;
        for (Rank rank = 0; rank < ranks; ++rank)
          want += rank * 1'000'000 + static_cast<std::int32_t>(i * 1000 + e);
        ASSERT_EQ(out[i][e], want) << "element " << e << " of call " << i;
      }
  }
};

// Those of rank 0, the only one with an engine.
Sums sums_of(HostileJob& job, int calls, Elements count, const PlanLimits& limits = kSmallSegments) {
  Communicator& world = job.create(0, limits);
  return {world, job.engine(0), 0, calls, count};
}

// What ranks with engines say to rank 0 in these calls.
std::vector<Said> story_of(const std::vector<HostIndex>& hosts, int calls, Elements count) {
  HostileJob job(hosts);
  std::vector<std::unique_ptr<Sums>> ranks;
  for (Rank rank = 0; rank < job.size(); ++rank) {
    Communicator& world = job.create(rank, kSmallSegments);
    ranks.push_back(std::make_unique<Sums>(world, job.engine(rank), rank, calls, count));
    ranks.back()->start();
  }
  for (int i = 0; i < 10'000 && !ranks[0]->all_done(); ++i)
    for (auto& rank : ranks) rank->move();
  EXPECT_TRUE(ranks[0]->all_done());
  ranks[0]->expect_right(job.size());
  return job.heard();
}

}  // namespace

TEST(Communicator, CallsUnderWayTogetherTakeTheirOwnMessagesInWhateverOrderTheseCome) {
  for (const auto& hosts : {std::vector<HostIndex>{0, 0}, {0, 1}, {0, 0, 1}})
    for (Elements count : {5, 1000, 9000}) {
      const std::vector<Said> truth = story_of(hosts, 4, count);
      std::mt19937 random(3);
      for (int round = 0; round < 10; ++round) {
        std::vector<Said> story = truth;
        if (round == 0) std::reverse(story.begin(), story.end());
        if (round > 1) std::shuffle(story.begin(), story.end(), random);
        HostileJob job(hosts);
        Sums sums = sums_of(job, 4, count);
        if (round % 2) sums.start();
        for (const Said& said : story) {
          for (int i = 0; i < 1000 && !job.say(said); ++i) job.engine(0).progress();
          job.listen();
        }
        if (round % 2 == 0) sums.start();
        for (int i = 0; i < 1000 && !sums.all_done() && !job.engine(0).failed(); ++i)
          sums.move(), job.listen();
        ASSERT_EQ(job.engine(0).failure(), "");
        ASSERT_TRUE(sums.all_done());
        sums.expect_right(job.size());
      }
    }
}

TEST(Communicator, ACallIsDoneWithItsLastSegmentAndNotBefore) {
  for (const auto& hosts : {std::vector<HostIndex>{0, 0}, {0, 1}}) {
    const std::vector<Said> story = story_of(hosts, 1, 9000);
    std::uint32_t last = 0;
    for (const Said& said : story) last = std::max(last, said.header.segment);
    ASSERT_GE(last, 4u) << "more segments than a window";
    for (std::uint32_t withheld = 0; withheld <= last; ++withheld) {
      HostileJob job(hosts);
      Sums sums = sums_of(job, 1, 9000);
      sums.start();
      auto say = [&](bool whether) {
        for (const Said& said : story) {
          if ((said.header.segment == withheld) != whether) continue;
          EXPECT_TRUE(job.say(said));
        }
        for (int i = 0; i < 100; ++i) sums.move(), job.listen();
      };
      say(false);
      EXPECT_FALSE(sums.all_done()) << "without segment " << withheld << " of " << last;
      say(true);
      EXPECT_TRUE(sums.all_done()) << job.engine(0).failure();
      sums.expect_right(2);
    }
  }
}

TEST(Communicator, WhoIsAheadOpensOnlySoManyCalls) {
  HostileJob job({0, 0});
  Sums sums = sums_of(job, 300, 1);
  sums.start();
  for (int i = 0; i < 10; ++i) sums.move(), job.listen();
  ASSERT_FALSE(job.told().empty());
  Seq last = 0;
  for (const Header& header : job.told()) last = std::max(last, header.seq);
  EXPECT_EQ(last + 1, Communicator::kMostOpen);
}

TEST(Communicator, WhoIsAheadOpensOnlyCallsOfSoManyBytes) {
  const PlanLimits limits{1, HostileJob::kStaging, 1 << 20, {}};
  HostileJob job({0, 0});
  constexpr Elements kCount = 2 << 20;  // of four segments: a window
  Sums sums = sums_of(job, 6, kCount, limits);
  Bytes window =
      std::min<Bytes>(kCount * 4, sums.communicator.plans().plan_for({}, kCount * 4).plan.segment * 4);
  sums.start();
  for (int i = 0; i < 10; ++i) sums.move(), job.listen();
  Seq last = 0;
  for (const Header& header : job.told()) last = std::max(last, header.seq);
  EXPECT_EQ(last + 1, std::min<Bytes>(6, Communicator::kMostUnderWayHere / window));
  EXPECT_LT(last + 1, 6u) << "the calls are too small to tell";
}

// They would wait there for memory's sake, without the communicator that they are for.
TEST(Communicator, TheFirstCallBetweenHostsIsOpenAlone) {
  HostileJob job({0, 1});
  Sums sums = sums_of(job, 300, 1);
  sums.start();
  for (int i = 0; i < 10; ++i) sums.move(), job.listen();
  ASSERT_FALSE(job.told().empty());
  for (const Header& header : job.told()) EXPECT_EQ(header.seq, 0u);
}

// Who hears it writes over what it sent before: with something older under way that may still be read.
TEST(Communicator, OnlyTheOldestOfTheCallsUnderWaySaysThatItsSenderWasAlone) {
  HostileJob job({0, 0});
  Sums sums = sums_of(job, 3, 500);
  ASSERT_TRUE(sums.communicator.plans().plan_for({}, 2000).is_one_shot);
  sums.start();
  for (int i = 0; i < 10; ++i) sums.move(), job.listen();
  ASSERT_EQ(job.told().size(), 3u);
  for (const Header& header : job.told()) EXPECT_EQ((header.segment & kSenderWasAlone) != 0, header.seq == 0);
}

// Three calls are under way; the peer reads what rank 0 sent in them only when all are done here.
TEST(Communicator, NoBlockIsWrittenOverWhileAMemberMayReadIt) {
  VirtualJob job({0, 0, 0});
  auto world = job.create(1, {0, 1, 2});
  std::vector<std::unique_ptr<Sums>> ranks;
  for (Rank rank = 0; rank < 3; ++rank)
    ranks.push_back(
        std::make_unique<Sums>(*world[static_cast<std::size_t>(rank)], job.engine(rank), rank, 12, 900));
  ranks[0]->start();
  ranks[1]->start();
  ranks[1]->move();  // rank 1 holds what rank 0 has sent
  ranks[2]->start();
  for (int i = 0; i < 1000; ++i) ranks[0]->move(), ranks[2]->move();
  for (int i = 0; i < 1000; ++i)
    for (auto& rank : ranks) rank->move();
  for (auto& rank : ranks) {
    ASSERT_TRUE(rank->all_done());
    rank->expect_right(3);
  }
}

TEST(Communicator, WhatOthersWaitForFindsABlockThoughAllAreTakenByCallsTheyHaveNotMade) {
  constexpr Bytes kStaging = 128 << 10;
  VirtualJob job({0, 0}, kStaging);
  auto ahead = job.create(1, {0, 1}), common = job.create(2, {0, 1});
  Sums many(*ahead[0], job.engine(0), 0, 16, 10'000);
  Sums mine(*common[0], job.engine(0), 0, 1, 10'000), theirs(*common[1], job.engine(1), 1, 1, 10'000);
  many.start();
  for (int i = 0; i < 10; ++i) many.move();
  EXPECT_GT(job.staging_taken(0) + (33 << 10), kStaging) << "it is not full";
  mine.start();
  theirs.start();
  for (int i = 0; i < 1000; ++i) mine.move(), theirs.move();
  ASSERT_TRUE(mine.all_done() && theirs.all_done());
  mine.expect_right(2);
  theirs.expect_right(2);
}

TEST(Communicator, TwoOfOneIdentityAreRefused) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  EXPECT_THROW(job.create(1, {0, 1}), Error);
  job.engine(0).destroy(*world[0]);
  job.engine(1).destroy(*world[1]);
  EXPECT_NO_THROW(job.create(1, {0, 1}));
}

}  // namespace ddl
