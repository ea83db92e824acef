// Calls whose payloads are read where their senders have them, ranks as threads.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/collective/brief_call.hpp"
#include "core/collective/engine.hpp"
#include "tests/support/call_buffers.hpp"
#include "tests/support/forbid.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::CallBuffers;
using test::everybody;
using test::VirtualJob;
using test::Where;

constexpr Kind kMoving[] = {Kind::broadcast, Kind::all_gather, Kind::gather, Kind::scatter, Kind::all_to_all};
// Of two ranks a root may also read what it reduces.
std::vector<Kind> readable(Rank ranks) {
  std::vector<Kind> kinds(std::begin(kMoving), std::end(kMoving));
  if (ranks == 2) kinds.push_back(Kind::reduce);
  return kinds;
}
constexpr Elements kMiddling = 20'000;  // not staged, and read by its readers alone

PlanLimits with_single_copies() {
  PlanLimits limits{1, Bytes{40} << 20, 0};
  limits.single_copy = true;
  return limits;
}

PreparedPlan& way_with(Handover handover, Communicator& mine, const Call& call) {
  for (const TaskCandidate& way : mine.plans().candidates_for(call.task(), call.bytes()))
    if (way.choice.handover == handover) return mine.plans().prepare(way.choice, call.bytes());
  ADD_FAILURE() << "there is no such way";
  return mine.plans().plan_for(call.task(), call.bytes());
}

// The way to make that call by which its payloads are read where they are.
PreparedPlan& reading(Communicator& mine, const Call& call) {
  return way_with(Handover::single_copy, mine, call);
}

std::unique_ptr<Completion> start_reading(VirtualJob& job, Rank me, Communicator& mine, const Call& call) {
  return test::start(job.engine(me), mine, call, &reading(mine, call));
}

void expect_no_failure(VirtualJob& job) {
  for (Rank rank = 0; rank < job.size(); ++rank) ASSERT_EQ(job.engine(rank).failure(), "");
}

}  // namespace

TEST(ReadInPlace, EveryWayOfEveryCallComesOutRight) {
  for (const auto& machine : {std::vector<HostIndex>{0, 0}, {0, 0, 0}, {0, 0, 0, 0, 0}}) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(job.size()), with_single_copies());
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      for (Kind kind : test::kAllKinds)
        for (Elements count : {1000, 4097, 50'001 / test::thinned(5), 400'003 / test::thinned(10)})
          for (Where where : {Where::in_place, Where::apart}) {
            const Task task{kind, has_root(kind) ? 1 : 0};
            for (const TaskCandidate& way : mine.plans().candidates_for(task, count * sizeof(int))) {
              CallBuffers buffers(kind, task.root, me, job.size(), count, where);
              PreparedPlan& plan = mine.plans().prepare(way.choice, buffers.call.bytes());
              auto operation = test::start(job.engine(me), mine, buffers.call, &plan);
              job.engine(me).wait(mine, *operation);
              buffers.expect_right(me, job.size());
            }
          }
    });
    expect_no_failure(job);
  }
}

// Some start a call and wait for it, the others make it in one go: these do without an operation, unless
// somebody comes late. What they read is written over as soon as they have it back.
TEST(ReadInPlace, WithAndWithoutAnOperationTheSameIsDone) {
  for (const auto& machine : {std::vector<HostIndex>{0, 0}, {0, 0, 0}}) {
    VirtualJob job(machine, Bytes{8} << 20, 0, 2000);
    auto world = job.create(1, everybody(job.size()), with_single_copies());
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      int turn = 0;
      for (int round = 0; round < 12 / test::thinned(6); ++round)
        for (Kind kind : readable(job.size()))
          for (Elements count : {Elements{4097}, kMiddling, Elements{50'001}}) {
            CallBuffers buffers(kind, has_root(kind) ? round % job.size() : 0, me, job.size(), count,
                                round % 2 ? Where::in_place : Where::apart);
            PreparedPlan& plan = reading(mine, buffers.call);
            ++turn;
            if (turn % 7 == me) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (turn % 5 == me) {
              job.engine(me).wait(mine, *test::start(job.engine(me), mine, buffers.call, &plan));
            } else {
              job.engine(me).run(mine, buffers.call, &plan);
            }
            buffers.expect_right(me, job.size());
            buffers.in.assign(buffers.in.size(), -2);
          }
    });
    expect_no_failure(job);
  }
}

TEST(ReadInPlace, NoOperationIsMadeOfAMiddlingCallThatAllMakeAtOnce) {
  VirtualJob job({0, 0});
  auto world = job.create(1, everybody(2), with_single_copies());
  for (Kind kind : kMoving) {
    CallBuffers buffers(kind, 0, 0, 2, kMiddling, Where::apart), large(kind, 0, 0, 2, 400'000, Where::apart);
    EXPECT_TRUE(BriefCall::is_possible(buffers.call, reading(*world[0], buffers.call), 2)) << name_of(kind);
    EXPECT_FALSE(BriefCall::is_possible(large.call, reading(*world[0], large.call), 2))
        << name_of(kind) << " is copied by both ends";
  }
  CallBuffers reduced(Kind::reduce, 0, 0, 2, kMiddling, Where::apart);
  EXPECT_TRUE(BriefCall::is_possible(reduced.call, reading(*world[0], reduced.call), 2));
}

// A root reads beside its own share, and a program's own operation is not done while it holds the lock.
TEST(ReadInPlace, WhatIsReducedIsReadApartFromTheOwnShare) {
  const auto latter = [](void*, const void* in, void* inout, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i)  // max, which is no sum
      static_cast<int*>(inout)[i] = std::max(static_cast<const int*>(in)[i], static_cast<int*>(inout)[i]);
  };
  const OwnReduction most{latter, nullptr};
  VirtualJob job({0, 0});
  auto world = job.create(1, everybody(2), with_single_copies());
  job.each([&](Rank me) {
    Communicator& mine = *world[static_cast<std::size_t>(me)];
    for (int round = 0; round < 8; ++round)
      for (Elements count : {Elements{2000}, kMiddling}) {
        std::vector<int> in(count), out(count, -1);
        for (Elements i = 0; i < count; ++i)
          in[i] = static_cast<int>((i % 7 == static_cast<Elements>(me)) ? 1000 + i : i);
        const bool is_in_place = round % 2 == 1, is_own = round % 4 >= 2;
        if (is_in_place && me == 0) out = in;
        const int* given = is_in_place && me == 0 ? out.data() : in.data();
        Call call{given, out.data(), count, DType::int32, Op::max};
        call.kind = Kind::reduce;
        if (is_own) call.own = most;
        job.engine(me).run(mine, call, &reading(mine, call));
        for (Elements i = 0; me == 0 && i < count; ++i)
          ASSERT_EQ(out[i], static_cast<int>(i % 7 < 2 ? 1000 + i : i)) << i << " in round " << round;
      }
  });
  expect_no_failure(job);
}

// It is started and left for whoever waits.
TEST(ReadInPlace, ACallThatIsMadeAgainIsStartedAndReadLater) {
  VirtualJob job({0, 0});
  auto world = job.create(1, everybody(2), with_single_copies());
  for (Elements count : {Elements{5000}, kMiddling}) {
    CallBuffers sent(Kind::gather, 1, 0, 2, count, Where::apart),
        got(Kind::gather, 1, 1, 2, count, Where::apart);
    BriefCall leaf, root;
    world[0]->make_brief(leaf, sent.call, reading(*world[0], sent.call));
    world[1]->make_brief(root, got.call, reading(*world[1], got.call));
    Completion at_leaf, at_root;
    EXPECT_EQ(job.engine(0).start(*world[0], leaf, sent.call.in, sent.call.out, 0, at_leaf),
              Started::under_way);
    for (int i = 0; i < 100; ++i) job.engine(0).progress();
    EXPECT_FALSE(at_leaf.done()) << "nobody has read it";
    job.engine(1).start(*world[1], root, got.call.in, got.call.out, 0, at_root);
    job.engine(1).wait(*world[1], at_root);
    got.expect_right(1, 2);
    job.engine(0).wait(*world[0], at_leaf);
  }
}

// Then there are other messages.
TEST(ReadInPlace, WhatIsReadIsNoRecountOfWhatIsStaged) {
  VirtualJob job({0, 0});
  auto world = job.create(1, everybody(2), with_single_copies());
  CallBuffers longest(Kind::broadcast, 0, 0, 2, kMiddling, Where::apart);
  PreparedPlan& plan = reading(*world[0], longest.call);
  for (Elements before : {1000, 19'000})
    for (Elements after : {1001, 19'001}) {
      CallBuffers one(Kind::broadcast, 0, 0, 2, before, Where::apart);
      BriefCall brief;
      world[0]->make_brief(brief, one.call, plan);
      ASSERT_EQ(brief.is_read(), before > 10'000);
      Call call = one.call;
      call.count = after;
      EXPECT_EQ(brief.recount(call), (before > 10'000) == (after > 10'000)) << before << " " << after;
    }
}

// Who reads leaves the engine's lock, and another thread may start a call of another communicator meanwhile,
// which is left as it is until somebody waits.
TEST(ReadInPlace, ThreadsWithMiddlingAndSmallCallsShareTheEngine) {
  struct Middling {
    Handover handover;
    Elements count;
  };
  const Elements most_staged = Sender::kLongWork / sizeof(int);  // the longest that is staged at once
  for (const Middling of : {Middling{Handover::single_copy, 200'000}, {Handover::staged, most_staged}}) {
    VirtualJob job({0, 0});
    auto large = job.create(1, everybody(2), with_single_copies()), small = job.create(2, everybody(2));
    job.each([&](Rank rank) {
      const auto me = static_cast<std::size_t>(rank);
      Engine& engine = job.engine(rank);
      std::thread others([&] {
        std::int32_t in = rank + 1, out = 0;
        BriefCall brief;
        small[me]->make_brief(brief, {&in, &out, 1, DType::int32, Op::sum},
                              small[me]->plans().plan_for({}, 4));
        for (int i = 0; i < 10'000 / test::thinned(25); ++i) {
          Completion completion;
          engine.start(*small[me], brief, &in, &out, 0, completion);
          engine.wait(*small[me], completion);
          ASSERT_EQ(out, 3);
        }
      });
      for (int i = 0; i < 400 / test::thinned(25); ++i) {
        CallBuffers buffers(Kind::all_gather, 0, rank, 2, of.count, Where::apart);
        BriefCall brief;
        large[me]->make_brief(brief, buffers.call, way_with(of.handover, *large[me], buffers.call));
        if (i % 2) {
          Completion completion;
          engine.start(*large[me], brief, buffers.call.in, buffers.call.out, 0, completion);
          engine.wait(*large[me], completion);
        } else {
          engine.run(*large[me], brief);
        }
        buffers.expect_right(rank, 2);
      }
      others.join();
    });
    expect_no_failure(job);
  }
}

// It gets a staged copy.
TEST(ReadInPlace, WhoIsNotLetReadEndsItsCallsLikeOthers) {
  VirtualJob job({0, 0});
  auto world = job.create(1, everybody(2), with_single_copies());
  job.each([&](Rank me) {
    if (me == 1) test::forbid(SYS_process_vm_readv);
    Communicator& mine = *world[static_cast<std::size_t>(me)];
    for (int round = 0; round < 4; ++round)
      for (Kind kind : readable(2)) {
        CallBuffers buffers(kind, round % 2, me, 2, kMiddling, Where::apart);
        job.engine(me).run(mine, buffers.call, &reading(mine, buffers.call));
        buffers.expect_right(me, 2);
      }
  });
  expect_no_failure(job);
}

// Of a call that its sender has given up nobody takes what lies in the sender's buffer by then.
TEST(ReadInPlace, WhoComesToACallThatHasFailedDoesNotEndIt) {
  for (Elements count : {kMiddling, Elements{300'000}}) {
    VirtualJob job({0, 0});
    auto world = job.create(1, everybody(2), with_single_copies());
    CallBuffers root(Kind::broadcast, 0, 0, 2, count, Where::apart);
    CallBuffers late(Kind::broadcast, 0, 1, 2, count, Where::apart);
    const auto sent = start_reading(job, 0, *world[0], root.call);
    job.engine(0).fail("rank 1 is late");
    const auto read = start_reading(job, 1, *world[1], late.call);
    for (int i = 0; i < 100; ++i) job.engine(1).progress();
    EXPECT_FALSE(read->done());
    job.engine(1).fail("the test is over");
  }
}

TEST(ReadInPlace, WhoWaitsForItsReadersNamesThoseThatHaveNotRead) {
  constexpr Elements kRead = 300'000;
  VirtualJob job({0, 0, 0});
  auto world = job.create(1, everybody(3), with_single_copies());
  CallBuffers root(Kind::broadcast, 0, 0, 3, kRead, Where::apart);
  CallBuffers reader(Kind::broadcast, 0, 1, 3, kRead, Where::apart);
  const auto sent = start_reading(job, 0, *world[0], root.call),
             read = start_reading(job, 1, *world[1], reader.call);
  test::until([&] { return read->done(); }, [&] { job.engine(1).progress(); });
  for (int i = 0; i < 100; ++i) job.engine(0).progress();  // it waits
  const std::vector<LongCall> waiting = job.engine(0).calls_longer_than(0);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].waits_for, std::vector<Rank>{2});
  for (Rank rank = 0; rank < job.size(); ++rank) job.engine(rank).fail("the test is over");
}

// The same of one that was made without an operation at first.
TEST(ReadInPlace, WhoMakesItsCallInOneGoNamesThemToo) {
  VirtualJob job({0, 0});
  auto world = job.create(1, everybody(2), with_single_copies());
  CallBuffers root(Kind::gather, 1, 0, 2, kMiddling, Where::apart);
  std::thread sender([&] { job.engine(0).run(*world[0], root.call, &reading(*world[0], root.call)); });
  std::vector<LongCall> waiting;
  test::until([&] { return !(waiting = job.engine(0).calls_longer_than(0)).empty(); },
              [] { std::this_thread::yield(); });
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].waits_for, std::vector<Rank>{1});
  for (Rank rank : {0, 1}) job.engine(rank).fail("the test is over");
  sender.join();
}

// Rank 2 gives to the root that it thinks is one, and is done. The others wait for each other.
TEST(ReadInPlace, RootsThatDifferAreNamedThoughNobodySendsTokens) {
  VirtualJob job({0, 0, 0});
  auto world = job.create(1, everybody(3), with_single_copies());
  job.each([&](Rank me) {
    CallBuffers buffers(Kind::gather, me == 1 ? 1 : 0, me, 3, kMiddling, Where::apart);
    buffers.call.began = now();
    Communicator& mine = *world[static_cast<std::size_t>(me)];
    auto operation = start_reading(job, me, mine, buffers.call);
    test::until([&] { return job.engine(me).failed(); },
                [&] {
                  job.engine(me).show_long_calls();
                  job.engine(me).progress();
                });
  });
  const std::string to_0 = "gather of 20000 int32 to rank 0", to_1 = "gather of 20000 int32 to rank 1";
  for (Rank rank = 0; rank < 3; ++rank) {
    const std::string failure = job.engine(rank).failure();
    EXPECT_NE(failure.find("here it is " + (rank == 1 ? to_1 : to_0)), std::string::npos) << failure;
    EXPECT_NE(failure.find("there " + (rank == 1 ? to_0 : to_1)), std::string::npos) << failure;
  }
}

}  // namespace ddl
