// Small calls that are ready to be made again and are started: done at once, left until somebody waits, or
// made operations of by whatever happens meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "core/collective/brief_call.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::VirtualJob;

constexpr Elements kCount = 50;
constexpr CommId kWorld = 1;

std::vector<float> numbers(Rank rank, int seed) {
  std::vector<float> all(kCount);
  for (Elements i = 0; i < kCount; ++i) all[i] = static_cast<float>(static_cast<int>(i) + 10 * rank + seed);
  return all;
}
void expect_sum(const std::vector<float>& got, Rank ranks, int seed) {
  for (Elements i = 0; i < kCount; ++i)
    ASSERT_EQ(got[i], static_cast<float>(ranks * (static_cast<int>(i) + seed) + 5 * ranks * (ranks - 1)));
}

// All-reduces of one rank that are made again and again.
class Again {
 public:
  Again(VirtualJob& job, Communicator& world, Rank rank)
      : engine_(job.engine(rank)), world_(world), rank_(rank) {
    world.make_brief(brief_, {nullptr, nullptr, kCount, DType::float32, Op::sum},
                     world.plans().plan_for({}, kCount * 4));
  }
  struct Started {
    std::vector<float> in, out = std::vector<float>(kCount, -1);
    int seed = 0;
    Completion completion;
  };
  ddl::Started start(Started& one, int seed) {
    one.in = numbers(rank_, one.seed = seed);
    return engine_.start(world_, brief_, one.in.data(), one.out.data(), 0, one.completion);
  }
  void start_other(Started& one, int seed) {
    one.in = numbers(rank_, one.seed = seed);
    engine_.start(world_, {one.in.data(), one.out.data(), kCount, DType::float32, Op::sum}, one.completion);
  }
  void wait(Started& one) { engine_.wait(world_, one.completion); }
  /// Ends it without waiting in the engine.
  void test(Started& one) {
    test::until([&] { return engine_.test(one.completion); }, [] { std::this_thread::yield(); });
  }
  void run(Started& one, int seed) {
    one.in = numbers(rank_, one.seed = seed);
    brief_.use(one.in.data(), one.out.data(), 0);
    engine_.run(world_, brief_);
  }

 private:
  Engine& engine_;
  Communicator& world_;
  BriefCall brief_;
  Rank rank_;
};

struct Pair {
  VirtualJob job{{0, 0}};
  std::vector<Communicator*> world = job.create(kWorld, {0, 1});
  Again first{job, *world[0], 0}, second{job, *world[1], 1};
};

}  // namespace

TEST(BriefStarts, WhoComesLastIsDoneAtOnceAndTheOtherWhenItWaits) {
  Pair ranks;
  Again::Started here, there;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ranks.first.start(here, i), Started::under_way);
    EXPECT_EQ(ranks.second.start(there, i), Started::done);
    expect_sum(there.out, 2, i);
    ranks.first.wait(here);
    expect_sum(here.out, 2, i);
  }
}

TEST(BriefStarts, TheSameCallStartsAgainWithOtherBuffersWhileItIsUnderWay) {
  Pair ranks;
  Again::Started here[3], there[3];
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ranks.first.start(here[i], i), Started::under_way);
  for (int i = 0; i < 3; ++i) ranks.second.start(there[i], i);
  for (int i = 2; i >= 0; --i) {
    ranks.first.wait(here[i]);
    ranks.second.wait(there[i]);
    expect_sum(here[i].out, 2, i);
    expect_sum(there[i].out, 2, i);
  }
}

// More than are left of one communicator, and than it has open.
TEST(BriefStarts, AnyNumberIsUnderWayAndWaitedForInAnyOrder) {
  constexpr int kCalls = 150;
  Pair ranks;
  std::vector<Again::Started> here(kCalls), there(kCalls);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kCalls; ++i) {
      EXPECT_EQ(ranks.first.start(here[static_cast<std::size_t>(i)], i), Started::under_way);
      if (i >= 60) ranks.second.start(there[static_cast<std::size_t>(i) - 60], i - 60);
    }
    for (int i = kCalls - 60; i < kCalls; ++i) ranks.second.start(there[static_cast<std::size_t>(i)], i);
    for (int i = 0; i < kCalls; ++i) {
      const int one = round == 0 ? i : round == 1 ? kCalls - 1 - i : i * 7 % kCalls;
      ranks.first.wait(here[static_cast<std::size_t>(one)]);
      ranks.second.wait(there[static_cast<std::size_t>(one)]);
      expect_sum(here[static_cast<std::size_t>(one)].out, 2, one);
      expect_sum(there[static_cast<std::size_t>(one)].out, 2, one);
    }
  }
}

// Those that are left have sent all they have to, and are not sent again by the operations that go on.
TEST(BriefStarts, MoreIsUnderWayThanOperationsHaveRoomFor) {
  constexpr int kCalls = 60;
  constexpr Elements kOfBlock = 12000;
  VirtualJob job({0, 0});
  const std::vector<Communicator*> world = job.create(kWorld, {0, 1});
  std::vector<std::vector<float>> in[2], out[2];
  std::vector<Completion> done[2];
  BriefCall calls[2];
  for (Rank rank : {0, 1}) {
    Communicator& own = *world[static_cast<std::size_t>(rank)];
    Call call{nullptr, nullptr, kOfBlock, DType::float32, Op::sum};
    call.kind = Kind::all_to_all;
    PreparedPlan& plan = own.plans().plan_for(call.task(), call.bytes());
    ASSERT_TRUE(BriefCall::is_possible(call, plan, 2));
    own.make_brief(calls[rank], call, plan);
    done[rank] = std::vector<Completion>(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      in[rank].emplace_back(2 * kOfBlock, static_cast<float>(10 * i + rank));
      out[rank].emplace_back(2 * kOfBlock, -1.0f);
    }
  }
  auto start = [&](Rank rank, std::size_t i) {
    job.engine(rank).start(*world[static_cast<std::size_t>(rank)], calls[rank], in[rank][i].data(),
                           out[rank][i].data(), 0, done[rank][i]);
  };
  for (std::size_t i = 0; i < kCalls; ++i) start(0, i);
  job.engine(0).let_go_of_brief_calls();
  for (std::size_t i = 0; i < kCalls; ++i) start(1, i);
  for (std::size_t i = 0; i < kCalls; ++i)
    for (Rank rank : {0, 1}) {
      job.engine(rank).wait(*world[static_cast<std::size_t>(rank)], done[rank][i]);
      for (Rank from : {0, 1})
        ASSERT_EQ(out[rank][i][static_cast<Elements>(from) * kOfBlock + 1],
                  static_cast<float>(10 * static_cast<int>(i) + from));
    }
  for (Rank rank : {0, 1}) EXPECT_EQ(job.engine(rank).failure(), "");
}

TEST(BriefStarts, OneThatIsLeftGetsItsNoticeFromWhoeverMakesProgress) {
  Pair ranks;
  Again::Started here, there;
  here.completion.ask_for_notice();
  ranks.first.start(here, 1);
  ranks.second.start(there, 1);
  ranks.job.engine(0).progress();  // or the helper's, which may have come
  EXPECT_TRUE(here.completion.done());
  EXPECT_EQ(ranks.job.engine(0).next_done(), &here.completion);
  EXPECT_EQ(ranks.job.engine(0).next_done(), nullptr);
  expect_sum(here.out, 2, 1);
}

TEST(BriefStarts, ACommunicatorMayGoWhenTheOthersHaveComeToItsLastCall) {
  Pair ranks;
  Again::Started here, there;
  ranks.first.start(here, 4);
  ranks.second.start(there, 4);
  ranks.job.engine(0).destroy(*ranks.world[0]);
  EXPECT_TRUE(here.completion.done());
  expect_sum(here.out, 2, 4);
}

TEST(BriefStarts, SeveralAreLeftOneOfEachCommunicator) {
  VirtualJob job({0, 0});
  std::vector<std::unique_ptr<Again>> of[2];
  for (CommId id = kWorld; id < kWorld + 3; ++id) {
    const std::vector<Communicator*> made = job.create(id, {0, 1});
    for (Rank rank : {0, 1})
      of[rank].push_back(std::make_unique<Again>(job, *made[static_cast<std::size_t>(rank)], rank));
  }
  for (int i = 0; i < 5; ++i) {
    Again::Started here[3], there[3];
    for (int one : {0, 1, 2}) EXPECT_EQ(of[0][one]->start(here[one], i + one), Started::under_way);
    for (int one : {2, 0, 1}) of[1][one]->start(there[one], i + one);
    for (int one : {1, 2, 0}) of[0][one]->wait(here[one]), expect_sum(here[one].out, 2, i + one);
    for (int one : {0, 1, 2}) of[1][one]->wait(there[one]), expect_sum(there[one].out, 2, i + one);
  }
}

// Started, tested and run, in other orders on each rank.
TEST(BriefStarts, MixOnSeveralCommunicatorsOfThreads) {
  constexpr int kComms = 4;
  const int rounds = 60000 / test::thinned(20);
  VirtualJob job({0, 0});
  std::vector<std::vector<Communicator*>> made;
  for (CommId id = kWorld; id <= kWorld + kComms; ++id) made.push_back(job.create(id, {0, 1}));
  job.each([&](Rank rank) {
    std::vector<std::unique_ptr<Again>> all;
    for (const auto& one : made)
      all.push_back(std::make_unique<Again>(job, *one[static_cast<std::size_t>(rank)], rank));
    std::mt19937 alike(11), alone(static_cast<unsigned>(rank));
    for (int round = 0; round < rounds; ++round) {
      Again::Started calls[kComms], between;
      std::vector<std::size_t> order(kComms);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), alone);
      for (std::size_t one : order) all[one]->start(calls[one], round);
      if (alike() % 2 == 0) {
        all[kComms]->run(between, round);
        expect_sum(between.out, 2, round);
      }
      if (alone() % 256 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      std::shuffle(order.begin(), order.end(), alone);
      for (std::size_t one : order) {
        alone() % 2 == 0 ? all[one]->test(calls[one]) : all[one]->wait(calls[one]);
        expect_sum(calls[one].out, 2, round);
      }
    }
  });
  for (Rank rank : {0, 1}) EXPECT_EQ(job.engine(rank).failure(), "");
}

// In any order on each rank, with other calls among them, and some ranks late.
TEST(BriefStarts, MixWithOtherCallsOfThreads) {
  constexpr int kUnderWay = 4, kCalls = 1500;
  for (Rank size : {2, 3}) {
    VirtualJob job(std::vector<HostIndex>(static_cast<std::size_t>(size), 0));
    std::vector<Rank> all;
    for (Rank rank = 0; rank < size; ++rank) all.push_back(rank);
    auto world = job.create(kWorld, all);
    job.each([&](Rank rank) {
      Again again(job, *world[static_cast<std::size_t>(rank)], rank);
      Again::Started calls[kUnderWay];
      std::mt19937 alike(7), alone(static_cast<unsigned>(rank));
      for (int i = 0; i < kCalls; ++i) {
        Again::Started& one = calls[i % kUnderWay];
        if (!one.completion.done() || i >= kUnderWay) {
          again.wait(one);
          expect_sum(one.out, size, one.seed);
        }
        alike() % 4 == 0 ? again.start_other(one, i) : static_cast<void>(again.start(one, i));
        if (alone() % 3 == 0) again.wait(one);
        if (alone() % 8 == 0) job.engine(rank).progress();
        if (alone() % 256 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
      for (Again::Started& one : calls) again.wait(one), expect_sum(one.out, size, one.seed);
    });
    for (Rank rank = 0; rank < size; ++rank) EXPECT_EQ(job.engine(rank).failure(), "");
  }
}

}  // namespace ddl
