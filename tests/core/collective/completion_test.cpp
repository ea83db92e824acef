// What Engine::start tells of a call: its completion, its notice, who moves it.
#include "core/collective/completion.hpp"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "core/base/clock.hpp"
#include "tests/support/hostile_job.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::HostileJob;
using test::VirtualJob;

// An all-reduce of a few numbers of one rank.
struct Sum {
  std::vector<float> in, out;
  Completion completion;
  explicit Sum(Elements count) : in(count, 1), out(count) {}
  Call call() { return {in.data(), out.data(), in.size(), DType::float32, Op::sum}; }
};

// A wire that remembers who used it.
struct WatchedWire : LoopbackTransport {
  using LoopbackTransport::LoopbackTransport;
  std::vector<Bytes> pushes;  // of the first thread that uses it
  std::atomic<int> own_rounds{0}, foreign_rounds{0};
  std::thread::id own = std::this_thread::get_id();

  bool push(Bytes at_least) override {
    if (std::this_thread::get_id() == own) pushes.push_back(at_least);
    return false;
  }
  bool progress(MessageHandler& handler) override {
    ++(std::this_thread::get_id() == own ? own_rounds : foreign_rounds);
    return LoopbackTransport::progress(handler);
  }
};

}  // namespace

TEST(Completion, EachCallThatAsksForNoticeIsNamedOnceWhenItIsDone) {
  for (const auto& hosts : {std::vector<HostIndex>{0, 0}, {0, 1}}) {
    VirtualJob job(hosts);
    auto world = job.create(1, {0, 1});
    Sum here[4] = {Sum(5), Sum(5000), Sum(7), Sum(5)}, there[4] = {Sum(5), Sum(5000), Sum(7), Sum(5)};
    for (int i = 0; i < 4; ++i) {
      if (i != 2) here[i].completion.ask_for_notice();
      EXPECT_EQ(job.engine(0).start(*world[0], here[i].call(), here[i].completion), Started::under_way);
    }
    EXPECT_EQ(job.engine(0).next_done(), nullptr) << "nothing is done";
    for (Sum& sum : there) job.engine(1).start(*world[1], sum.call(), sum.completion);
    std::map<Completion*, int> named;
    for (Nanoseconds end = now() + 20'000'000'000; now() < end && named.size() < 3;) {
      for (Rank rank : {0, 1}) job.engine(rank).progress();
      while (Completion* one = job.engine(0).next_done()) {
        EXPECT_TRUE(one->done());
        ++named[one];
      }
    }
    for (int i = 0; i < 4; ++i) {
      job.engine(0).wait(*world[0], here[i].completion);
      EXPECT_EQ(named[&here[i].completion], i == 2 ? 0 : 1) << "call " << i;
    }
    EXPECT_EQ(job.engine(0).next_done(), nullptr);
    for (Sum& sum : there) job.engine(1).wait(*world[1], sum.completion);
  }
}

TEST(Completion, WhatIsDoneAtOnceIsNotNamed) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  Communicator& alone = *job.create(2, {0})[0];
  Sum nothing(0), lonely(5), late(5), early(5);
  for (Sum* sum : {&nothing, &lonely, &late}) sum->completion.ask_for_notice();
  EXPECT_EQ(job.engine(0).start(*world[0], nothing.call(), nothing.completion), Started::done);
  EXPECT_EQ(job.engine(0).start(alone, lonely.call(), lonely.completion), Started::done);
  EXPECT_EQ(lonely.out, lonely.in);
  Sum other_nothing(0);
  job.engine(1).start(*world[1], other_nothing.call(), other_nothing.completion);
  job.engine(1).start(*world[1], early.call(), early.completion);
  job.engine(0).progress();
  EXPECT_EQ(job.engine(0).start(*world[0], late.call(), late.completion), Started::done);
  EXPECT_EQ(job.engine(0).next_done(), nullptr);
  job.engine(1).wait(*world[1], early.completion);
}

// Who looks for it need not look at the wire as well, nor give its core away.
TEST(Completion, AnEndToBeToldOfIsNews) {
  VirtualJob job({0, 1});
  auto world = job.create(1, {0, 1});
  Sum here(5), there(5);
  here.completion.ask_for_notice();
  ASSERT_EQ(job.engine(0).start(*world[0], here.call(), here.completion), Started::under_way);
  job.engine(1).run(*world[1], there.call());
  job.engine(0).wait(*world[0], here.completion);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(job.engine(0).poll());
  EXPECT_EQ(job.engine(0).next_done(), &here.completion);
  EXPECT_FALSE(job.engine(0).poll());
}

// A completion may be used again; an old wish for notice holds, an old notice does not.
TEST(Completion, OneThatIsUsedAgainIsNamedAgain) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  Sum here(5);
  here.completion.ask_for_notice();
  for (int round = 0; round < 3; ++round) {
    Sum there(5);
    ASSERT_EQ(job.engine(0).start(*world[0], here.call(), here.completion), Started::under_way);
    job.engine(1).run(*world[1], there.call());
    job.engine(0).wait(*world[0], here.completion);
    EXPECT_EQ(job.engine(0).next_done(), &here.completion);
    EXPECT_EQ(job.engine(0).next_done(), nullptr);
  }
}

TEST(Engine, AStartPushesAtOnceUnlessOtherCallsAreUnderWay) {
  LoopbackNet net(2);
  WatchedWire wire(net, 0);
  HostileJob job({0, 1}, &wire);
  Communicator& world = job.create(0, {1, HostileJob::kStaging, 0, {}});
  Sum first(5), second(5);
  job.engine(0).start(world, first.call(), first.completion);
  ASSERT_EQ(wire.pushes.size(), 1u) << "a message waits for others that do not come";
  EXPECT_EQ(wire.pushes[0], 0u);
  job.engine(0).start(world, second.call(), second.completion);
  ASSERT_EQ(wire.pushes.size(), 2u);
  EXPECT_GT(wire.pushes[1], 1000u) << "small messages travel together";
  job.engine(0).fail("the test is over");
}

TEST(Engine, TheHelperThreadLeavesAProgramAloneThatMovesItsCalls) {
  LoopbackNet net(2);
  WatchedWire wire(net, 0);
  HostileJob job({0, 1}, &wire);
  Communicator& world = job.create(0, {1, HostileJob::kStaging, 0, {}});
  Sum sum(5);
  job.engine(0).start(world, sum.call(), sum.completion);
  // Where other programs keep this one from moving for a while, the helper may well step in.
  int fewest = 1'000'000;
  for (int round = 0; round < 10 && fewest > 10; ++round) {
    wire.foreign_rounds = 0;
    for (Nanoseconds end = now() + 100'000'000; now() < end;) job.engine(0).test(sum.completion);
    fewest = std::min(fewest, wire.foreign_rounds.load());
  }
  EXPECT_LE(fewest, 10) << "of about two hundred that it makes for a program that does not";
  wire.foreign_rounds = 0;
  for (Nanoseconds end = now() + 20'000'000'000; now() < end && wire.foreign_rounds < 20;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(wire.foreign_rounds, 20) << "nobody moves the call";
  job.engine(0).fail("the test is over");
}

}  // namespace ddl
