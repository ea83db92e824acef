// How far a rank is ahead of those it only sends to: by itself, and in jobs whose ranks are threads.
#include "core/collective/credit.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "core/collective/engine.hpp"
#include "core/plan/task_planner.hpp"
#include "tests/support/call_buffers.hpp"
#include "tests/support/hostile_job.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::CallBuffers;
using test::everybody;
using test::HostileJob;
using test::VirtualJob;
using test::Where;

constexpr int kAhead = static_cast<int>(Credit::kMostAhead),
              kWithin = static_cast<int>(Credit::kAnswerWithin);

Plan plan_of(const std::vector<HostIndex>& hosts, Rank me, Task task) {
  HostMap map(hosts);
  PlanLimits limits{1, Bytes{1} << 20, 0, {}};
  return make_plan(Grid::from_hosts(hosts), map, me, choose_task(map, task, 64, limits));
}

// Calls of one rank that are started and not waited for.
struct Caller {
  Engine& engine;
  Communicator& communicator;
  Rank me, size;
  std::vector<std::unique_ptr<CallBuffers>> buffers;
  std::vector<std::unique_ptr<Completion>> done;

  Caller(VirtualJob& job, const std::vector<Communicator*>& world, Rank rank)
      : engine(job.engine(rank)),
        communicator(*world[static_cast<std::size_t>(rank)]),
        me(rank),
        size(job.size()) {}
  ~Caller() { engine.fail("the test is over"); }
  void start(Kind kind, Rank root, Elements count) {
    buffers.push_back(std::make_unique<CallBuffers>(kind, root, me, size, count, Where::apart));
    done.push_back(test::start(engine, communicator, buffers.back()->call));
  }
  int so_many_done() const {
    return static_cast<int>(std::count_if(done.begin(), done.end(), [](auto& one) { return one->done(); }));
  }
  void expect_right() const {
    for (const auto& one : buffers) one->expect_right(me, size);
  }
};

void progress(VirtualJob& job, int times = 20) {
  for (int i = 0; i < times; ++i)
    for (Rank rank = 0; rank < job.size(); ++rank) job.engine(rank).progress();
}

const std::vector<std::vector<HostIndex>> kCreditMachines = {
    {0, 0}, {0, 0, 0}, {0, 1, 1}, {0, 0, 1, 2, 2, 2}};

// Who sends in such a call with root 0 and hears from nobody: no agent of its host.
Rank sender_of(Kind kind, Rank size) {
  return kind == Kind::broadcast || kind == Kind::scatter ? 0 : size - 1;
}

}  // namespace

TEST(Credit, IsUsedUpByCallsThatNobodyWasHeardOfAndComesBackWithAnyMessage) {
  Plan plan = plan_of({0, 0, 0}, 0, {Kind::broadcast, 0});
  Call call{nullptr, nullptr, 4, DType::int32, Op::sum, "", 0, Kind::broadcast, 0};
  Credit credit(3);
  for (Credit::Number n = 1; n <= Credit::kMostAhead; ++n) {
    EXPECT_TRUE(credit.is_left(call, plan));
    credit.note(n, call, plan);
  }
  EXPECT_FALSE(credit.is_left(call, plan));
  EXPECT_EQ(credit.waiting_for(), (std::vector<Rank>{1, 2}));
  credit.heard(1, 40);
  EXPECT_FALSE(credit.is_left(call, plan)) << "rank 2 may not have begun any";
  EXPECT_EQ(credit.waiting_for(), (std::vector<Rank>{2}));
  credit.heard(2, 1);
  EXPECT_TRUE(credit.is_left(call, plan));
  credit.note(33, call, plan);
  EXPECT_FALSE(credit.is_left(call, plan)) << "one was forgotten, and no more";
  credit.heard(2, 33);
  EXPECT_TRUE(credit.is_left(call, plan));
}

TEST(Credit, WhoReceivesOwesAnAnswerWithinSoManyCalls) {
  Plan plan = plan_of({0, 0, 0}, 1, {Kind::broadcast, 0});
  Call call{nullptr, nullptr, 4, DType::int32, Op::sum, "", 0, Kind::broadcast, 0};
  Credit credit(3);
  EXPECT_FALSE(credit.must_answer(1000)) << "it has received nothing";
  credit.note(5, call, plan);
  credit.note(6, call, plan);
  EXPECT_FALSE(credit.must_answer(5 + Credit::kAnswerWithin - 1));
  EXPECT_TRUE(credit.must_answer(5 + Credit::kAnswerWithin));
  std::vector<Rank> told;
  credit.answer([](Rank) { return false; });
  EXPECT_TRUE(credit.must_answer(5 + Credit::kAnswerWithin)) << "it could not be told";
  credit.answer([&](Rank rank) { return told.push_back(rank), true; });
  EXPECT_EQ(told, (std::vector<Rank>{0}));
  EXPECT_FALSE(credit.must_answer(1000));
}

TEST(Credit, WhoSendsAnythingOfThatCallOrALaterOneOwesNothingMore) {
  Plan plan = plan_of({0, 0, 0}, 1, {Kind::broadcast, 0});
  Call call{nullptr, nullptr, 4, DType::int32, Op::sum, "", 0, Kind::broadcast, 0};
  constexpr Credit::Number kDue = 6 + Credit::kAnswerWithin;
  Credit credit(3);
  credit.told(0, 4);
  credit.note(5, call, plan);
  credit.note(6, call, plan);
  credit.told(0, 5);
  credit.told(2, 7);
  EXPECT_TRUE(credit.must_answer(kDue)) << "that call was before, that rank is another one";
  credit.told(0, 6);
  EXPECT_FALSE(credit.owes());
  EXPECT_FALSE(credit.must_answer(1000));
  credit.note(20, call, plan);
  EXPECT_FALSE(credit.must_answer(20 + Credit::kAnswerWithin - 1)) << "a new debt is due later";
  EXPECT_TRUE(credit.must_answer(20 + Credit::kAnswerWithin));
  int told = 0;
  credit.answer([&](Rank) { return ++told, true; });
  EXPECT_EQ(told, 1);
}

TEST(Credit, CoversSmallCallsButTheFirst) {
  Plan plan = plan_of({0, 0}, 0, {Kind::broadcast, 0});
  Call call{nullptr, nullptr, 4, DType::int32, Op::sum, "", 0, Kind::broadcast, 0};
  EXPECT_TRUE(Credit::covers(call, plan, 1));
  EXPECT_FALSE(Credit::covers(call, plan, 0));
  call.count = 0;
  EXPECT_FALSE(Credit::covers(call, plan, 1)) << "nobody sends anything";
  call.count = 17;
  EXPECT_FALSE(Credit::covers(call, plan, 1)) << "more than one segment of this plan";
  call.count = kMostStaged / 4 + 1;
  plan.segment = 1 << 20;
  EXPECT_TRUE(Credit::covers(call, plan, 1));
  plan.most_staged = kMostStaged;
  EXPECT_FALSE(Credit::covers(call, plan, 1)) << "its readers are waited for";
  Plan all = plan_of({0, 0}, 0, {Kind::all_gather, 0});
  call.count = 4;
  EXPECT_FALSE(Credit::covers(call, all, 1)) << "everybody hears from everybody anyway";
}

TEST(Credit, WhoOnlySendsIsSoManyCallsAheadAndNoMore) {
  for (const auto& machine : kCreditMachines)
    for (Kind kind : {Kind::broadcast, Kind::scatter, Kind::reduce, Kind::gather}) {
      VirtualJob job(machine);
      auto world = job.create(1, everybody(job.size()));
      const Rank sends = sender_of(kind, job.size());
      Caller sender(job, world, sends);
      std::vector<std::unique_ptr<Caller>> others;
      for (int i = 0; i < 2 * kAhead; ++i) sender.start(kind, 0, 50);
      progress(job);
      EXPECT_EQ(sender.so_many_done(), 0) << "the first one waits until others have made it";
      for (Rank rank = 0; rank < job.size(); ++rank) {
        others.push_back(std::make_unique<Caller>(job, world, rank));
        if (rank != sends) others.back()->start(kind, 0, 50);
      }
      test::until([&] { return sender.so_many_done() > kAhead; }, [&] { progress(job, 1); });
      progress(job);
      EXPECT_EQ(sender.so_many_done(), 1 + kAhead) << name_of(kind) << " on " << job.size();
      const std::vector<LongCall> waiting = sender.engine.calls_longer_than(0);
      ASSERT_EQ(waiting.size(), 1u) << "the oldest";
      EXPECT_FALSE(waiting[0].waits_for.empty());
      auto start_others = [&] {
        for (Rank rank = 0; rank < job.size(); ++rank)
          if (rank != sends) others[static_cast<std::size_t>(rank)]->start(kind, 0, 50);
      };
      const int answering = 1 + kWithin;  // the call in which they answer for those before
      for (int i = 1; i <= answering; ++i) start_others();
      test::until([&] { return sender.so_many_done() > answering + kAhead; }, [&] { progress(job, 1); });
      progress(job);
      EXPECT_EQ(sender.so_many_done(), 1 + answering + kAhead) << name_of(kind) << " on " << job.size();
      for (int i = 1 + answering; i < 2 * kAhead; ++i) start_others();
      auto all_done = [&] {
        bool done = sender.so_many_done() == 2 * kAhead;
        for (auto& other : others) done &= other->so_many_done() == static_cast<int>(other->done.size());
        return done;
      };
      test::until(all_done, [&] { progress(job, 1); });
      EXPECT_TRUE(all_done()) << name_of(kind);
      sender.expect_right();
      for (auto& other : others) other->expect_right();
      EXPECT_EQ(sender.engine.failure(), "");
    }
}

// Who is sent to says by what it sends itself how far it has come.
TEST(Credit, ALoopOfBroadcastAndReduceIsAnsweredByItsOwnMessages) {
  constexpr int kRounds = 200, kOfTheFirstCalls = 8;
  for (const auto& machine : std::vector<std::vector<HostIndex>>{{0, 1}, {0, 1, 2}}) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(job.size()));
    job.each([&](Rank me) {
      for (int i = 0; i < 2 * kRounds; ++i) {
        CallBuffers buffers(i % 2 ? Kind::reduce : Kind::broadcast, 0, me, job.size(), 5, Where::apart);
        job.engine(me).run(*world[static_cast<std::size_t>(me)], buffers.call);
        buffers.expect_right(me, job.size());
      }
    });
    for (Rank leaf = 1; leaf < job.size(); ++leaf)
      EXPECT_LE(job.messages(leaf), kRounds + kOfTheFirstCalls) << "rank " << leaf << " of " << job.size();
  }
}

// Staging holds what a full credit of such calls needs; a thousand calls would need ten times that.
TEST(Credit, AThousandBroadcastsToRanksThatSleepTakeBoundedMemory) {
  for (const auto& machine : kCreditMachines) {
    VirtualJob job(machine);
    const Bytes at_first = job.staging_taken(0);
    auto world = job.create(1, everybody(job.size()));
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      for (int i = 0; i < 1000; ++i) {
        if (me != 0 && i == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CallBuffers buffers(Kind::broadcast, 0, me, job.size(), 1000 + static_cast<Elements>(i) % 3,
                            Where::apart);
        job.engine(me).run(mine, buffers.call);
        buffers.expect_right(me, job.size());
      }
      EXPECT_EQ(job.engine(me).failure(), "");
    });
    EXPECT_LT(job.staging_taken(0) - at_first, Bytes{2} << 20);
  }
}

// Ranks are late at their own times; kinds, roots and sizes change, so that credit is given and taken on all
// sides, by calls that are done at once and by operations.
TEST(Credit, BlockingCallsOfAllKindsFromAllRootsComeOutRight) {
  for (const auto& machine : kCreditMachines) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(job.size()));
    job.each([&](Rank me) {
      std::mt19937 alike(3), alone(static_cast<unsigned>(me));
      constexpr Kind kinds[] = {Kind::broadcast, Kind::reduce, Kind::gather, Kind::scatter, Kind::all_reduce};
      Kind kind{};
      Rank root = 0;
      for (int i = 0; i < 1500 / test::thinned(6); ++i) {
        if (alike() % 16 == 0) kind = kinds[alike() % std::size(kinds)];  // runs of one kind and root
        if (alike() % 16 == 0) root = static_cast<Rank>(alike() % static_cast<unsigned>(job.size()));
        Elements count = std::array<Elements, 7>{0, 1, 22, 23, 4096, 8192, 9000}[alike() % 7];
        if (alone() % 128 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        CallBuffers buffers(kind, root, me, job.size(), count, alike() % 2 ? Where::apart : Where::in_place);
        job.engine(me).run(*world[static_cast<std::size_t>(me)], buffers.call);
        buffers.expect_right(me, job.size());
        if (testing::Test::HasFatalFailure() || job.engine(me).failed()) break;
      }
      EXPECT_EQ(job.engine(me).failure(), "");
    });
  }
}

// Every root is owed one answer: nobody makes calls for its sake.
TEST(Credit, ManyRootsThatAreOwedOneAnswerEachGoOn) {
  VirtualJob job(std::vector<HostIndex>(6, 0));
  auto world = job.create(1, everybody(6));
  job.each([&](Rank me) {
    for (int i = 0; i < 600; ++i) {
      CallBuffers buffers(Kind::reduce, i % 5, me, 6, 5, Where::apart);  // rank 5 sends in all of them
      job.engine(me).run(*world[static_cast<std::size_t>(me)], buffers.call);
      buffers.expect_right(me, 6);
    }
    EXPECT_EQ(job.engine(me).failure(), "");
  });
}

TEST(Credit, AnAllReduceIsDoneAtOnceWhileOthersAreBehind) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  Caller root(job, world, 0), leaf(job, world, 1);
  for (int i = 0; i < 3 * kWithin; ++i) root.start(Kind::broadcast, 0, 5), leaf.start(Kind::broadcast, 0, 5);
  test::until([&] { return leaf.so_many_done() == 3 * kWithin; }, [&] { progress(job, 1); });
  std::int32_t one = 1, in_place = 1,
               sum = 0;  // started by the leaf, whose answers lie before it in the mailbox
  auto late = test::start(leaf.engine, leaf.communicator, {&in_place, &in_place, 1, DType::int32, Op::sum});
  root.engine.run(root.communicator, {&one, &sum, 1, DType::int32, Op::sum});
  EXPECT_EQ(sum, 2);
  leaf.engine.wait(leaf.communicator, *late);
  leaf.expect_right();
}

TEST(Credit, ABroadcastThatWasAnAllReduceElsewhereIsNamedByItsRootToo) {
  for (const auto& machine : {std::vector<HostIndex>{0, 0}, {0, 1}}) {
    VirtualJob job(machine);
    auto world = job.create(1, {0, 1});
    Caller root(job, world, 0), leaf(job, world, 1);
    for (Caller* rank : {&root, &leaf}) rank->start(Kind::broadcast, 0, 5);
    test::until([&] { return root.so_many_done() == 1; }, [&] { progress(job, 1); });
    root.start(Kind::broadcast, 0, 7);
    test::until([&] { return root.so_many_done() == 2; }, [&] { root.engine.progress(); });
    leaf.start(Kind::all_reduce, 0, 7);
    test::until([&] { return root.engine.failed() && leaf.engine.failed(); }, [&] { progress(job, 1); });
    EXPECT_NE(root.engine.failure().find("call number 1: here it is broadcast of 7 int32 from rank 0"),
              std::string::npos)
        << root.engine.failure();
    EXPECT_NE(leaf.engine.failure().find("call number 1: here it is all-reduce of 7 int32"),
              std::string::npos)
        << leaf.engine.failure();
  }
}

// Who has all that it needs goes on; then it hears of the other one.
TEST(Credit, ABroadcastFromAnotherRootIsNamedByWhoHasDoneItsOwn) {
  for (const auto& machine : {std::vector<HostIndex>{0, 0, 0}, {0, 1, 2}}) {
    VirtualJob job(machine);
    auto world = job.create(1, {0, 1, 2});
    Caller root(job, world, 0), other(job, world, 1), leaf(job, world, 2);
    for (Caller* rank : {&root, &other, &leaf}) rank->start(Kind::broadcast, 0, 5);
    test::until([&] { return leaf.so_many_done() + other.so_many_done() == 2; }, [&] { progress(job, 2); });
    root.start(Kind::broadcast, 0, 7);
    leaf.start(Kind::broadcast, 0, 7);
    test::until([&] { return leaf.so_many_done() == 2; },
                [&] { root.engine.progress(), leaf.engine.progress(); });
    other.start(Kind::broadcast, 1, 7);
    test::until([&] { return other.engine.failed() && leaf.engine.failed(); }, [&] { progress(job, 2); });
    EXPECT_NE(leaf.engine.failure().find("here it is broadcast of 7 int32 from rank 0, there broadcast of 7 "
                                         "int32 from rank 1"),
              std::string::npos)
        << leaf.engine.failure();
  }
}

TEST(Credit, ARankThatGoesIsFatalToWhoIsAheadToo) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  Caller root(job, world, 0), leaf(job, world, 1);
  for (Caller* rank : {&root, &leaf}) rank->start(Kind::broadcast, 0, 5);
  test::until([&] { return root.so_many_done() == 1; }, [&] { progress(job, 1); });
  for (int i = 0; i < 2 * kAhead; ++i) root.start(Kind::broadcast, 0, 5);
  std::thread waits([&] { root.engine.wait(root.communicator, *root.done.back()); });
  root.engine.fail("rank 1 of the job is gone");
  waits.join();
  EXPECT_TRUE(root.engine.failed());
}

TEST(Credit, AnswersAfterTheEndOfACommunicatorAreForgotten) {
  HostileJob job({0, 1});
  job.create(0, {1, HostileJob::kStaging, 0, {}});
  Header answer{4711, Credit::kAnswer, 9, 0, 0, 1, 0, 0};
  for (int i = 0; i < 3000 / test::thinned(6); ++i) {  // kept, they would be too many
    for (int j = 0; j < 1000; ++j) job.say({1, answer, {}});
    job.engine(0).progress();
  }
  EXPECT_EQ(job.engine(0).failure(), "");
}

TEST(Credit, WhatComesForCommunicatorsThatNobodyMakesIsBoundedByTheMemoryThatItTakes) {
  HostileJob job({0, 1});
  job.create(0, {1, HostileJob::kStaging, 0, {}});
  const std::vector<std::byte> payload(View::kInline + 1);  // lies in a block of 4 KiB
  Header header{4711, 5, 9, 0, 0, 1, static_cast<std::uint32_t>(payload.size()), 0};
  int messages = 0;
  for (; messages < 200'000 && !job.engine(0).failed(); ++messages) {
    job.say({1, header, payload});
    if (messages % 100 == 0) job.engine(0).progress();
  }
  EXPECT_LE(messages, (256 << 20) / 4096);
  EXPECT_NE(job.engine(0).failure().find("messages wait for communicators"), std::string::npos)
      << job.engine(0).failure();
}

TEST(Credit, ACommunicatorEndsWithCreditInUse) {
  VirtualJob job({0, 0, 1});
  for (CommId id = 1; id < 30; ++id) {
    auto world = job.create(id, everybody(3));
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      for (CommId i = 0; i < 5 + id; ++i) {
        CallBuffers buffers(i % 3 ? Kind::broadcast : Kind::reduce, 1, me, 3, 300, Where::apart);
        job.engine(me).run(mine, buffers.call);
        buffers.expect_right(me, 3);
      }
      job.engine(me).destroy(mine);
    });
    for (Rank me = 0; me < 3; ++me) ASSERT_EQ(job.engine(me).failure(), "");
  }
}

}  // namespace ddl
