// Sends and receives between two ranks, alone and many together, ranks as threads.
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/collective/engine.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::VirtualJob;
using Numbers = std::vector<std::int32_t>;

// What the n-th message from one rank to another holds.
Numbers message(Rank from, Rank to, int n, Elements count) {
  Numbers numbers(count);
  auto salt = static_cast<Elements>((from * 100 + to) * 1000 + n) * 4001;
  for (Elements i = 0; i < count; ++i) numbers[i] = static_cast<std::int32_t>(salt + i);
  return numbers;
}

// The sends and receives of one rank, started together.
struct Exchange {
  Rank me;
  std::vector<Numbers> buffers;
  std::vector<Call> calls;
  std::vector<Numbers> wanted;  // of the receives; empty for sends

  void send(Rank to, int n, Elements count) { add(Kind::send, to, message(me, to, n, count), {}); }
  void receive(Rank from, int n, Elements count) {
    add(Kind::receive, from, Numbers(count, -1), message(from, me, n, count));
  }
  void expect_right() const {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].kind == Kind::send) continue;
      ASSERT_EQ(buffers[i], wanted[i]) << describe(calls[i]) << " on rank " << me;
    }
  }

 private:
  void add(Kind kind, Rank peer, Numbers numbers, Numbers want) {
    Elements count = numbers.size();
    buffers.push_back(std::move(numbers));
    wanted.push_back(std::move(want));
    int* memory = buffers.back().data();  // stays where it is when the vector of buffers grows
    const void* in = kind == Kind::send ? memory : nullptr;
    void* out = kind == Kind::send ? nullptr : memory;
    calls.push_back({in, out, count, DType::int32, Op::sum, "", 0, kind, peer});
  }
};

void run(VirtualJob& job, Communicator& communicator, Exchange& group) {
  Engine& engine = job.engine(group.me);
  std::vector<Completion> done(group.calls.size());
  engine.start_together(communicator, group.calls, done);
  for (const Completion& one : done) engine.wait(communicator, one);
  group.expect_right();
}

const std::vector<std::vector<HostIndex>> kMachinesThatSend = {
    {0, 0}, {0, 1}, {0, 0, 0, 0, 0}, {0, 0, 1, 2, 2, 2}, {0, 1, 2, 0, 1, 2, 1}};

}  // namespace

TEST(Sends, APairOfCallsMovesAnyNumberOfElements) {
  for (const auto& machine : {std::vector<HostIndex>{0, 0, 0}, {0, 1, 1}}) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(3), {2, Bytes{1} << 20, 0});
    for (Elements count : {0, 1, 7, 22, 23, 1000, 70'001, 1'000'003})
      job.each([&](Rank me) {
        Exchange group{me, {}, {}, {}};
        if (me == 2) group.send(0, 1, count);
        if (me == 0) group.receive(2, 1, count);
        run(job, *world[static_cast<std::size_t>(me)], group);
      });
    for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(job.engine(rank).failure(), "");
  }
}

TEST(Sends, ARingOfSendsAndReceivesTogetherDoesNotWaitForEver) {
  for (const auto& machine : kMachinesThatSend) {
    VirtualJob job(machine);
    Rank size = job.size();
    auto world = job.create(1, everybody(size), {1, Bytes{40} << 10, 0});
    job.each([&](Rank me) {
      for (int round = 0; round < 5; ++round) {
        Exchange group{me, {}, {}, {}};
        group.send((me + 1) % size, round, 30'000);
        group.receive((me + size - 1) % size, round, 30'000);
        run(job, *world[static_cast<std::size_t>(me)], group);
      }
    });
  }
}

TEST(Sends, EverybodyToEverybodySeveralTimesInOneGroupKeepsTheOrderOfEachPair) {
  for (const auto& machine : kMachinesThatSend) {
    VirtualJob job(machine);
    Rank size = job.size();
    auto world = job.create(1, everybody(size), {1, Bytes{40} << 10, 0});
    auto count = [](Rank from, Rank to, int n) {
      return static_cast<Elements>(from * 977 + to * 31 + n * 5);
    };
    job.each([&](Rank me) {
      Exchange group{me, {}, {}, {}};
      for (int n = 0; n < 4; ++n)
        for (Rank peer = 0; peer < size; ++peer) {
          if (peer == me) continue;
          if (me % 2) group.send(peer, n, count(me, peer, n));
          group.receive(peer, n, count(peer, me, n));
          if (me % 2 == 0) group.send(peer, n, count(me, peer, n));
        }
      run(job, *world[static_cast<std::size_t>(me)], group);
    });
  }
}

TEST(Sends, CollectivesAndSendsOfAFewTakeTurns) {
  VirtualJob job({0, 0, 1, 1, 1});
  auto world = job.create(1, everybody(5));
  job.each([&](Rank me) {
    std::mt19937 random(5);  // alike on all ranks: who sends to whom between the collectives
    Communicator& mine = *world[static_cast<std::size_t>(me)];
    for (int round = 0; round < 60; ++round) {
      auto from = static_cast<Rank>(random() % 5), to = static_cast<Rank>((from + 1 + random() % 4) % 5);
      Elements count = random() % 6000;
      Exchange group{me, {}, {}, {}};
      if (me == from) group.send(to, round, count);
      if (me == to) group.receive(from, round, count);
      run(job, mine, group);
      Numbers sum(round % 3 ? 500 : 3, me);
      auto operation =
          test::start(job.engine(me), mine, {sum.data(), sum.data(), sum.size(), DType::int32, Op::sum});
      job.engine(me).wait(mine, *operation);
      ASSERT_EQ(sum, Numbers(sum.size(), 10));
    }
  });
}

TEST(Sends, ASenderIsNotDoneBeforeItsReceiverTakesPart) {
  for (const auto& machine : {std::vector<HostIndex>{0, 0}, {0, 1}}) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(2));
    Exchange sender{0, {}, {}, {}}, receiver{1, {}, {}, {}};
    sender.send(1, 0, 5);
    receiver.receive(0, 0, 5);
    auto operation = test::start(job.engine(0), *world[0], sender.calls[0]);
    for (int i = 0; i < 100; ++i) job.engine(0).progress();
    EXPECT_FALSE(operation->done());
    auto other = test::start(job.engine(1), *world[1], receiver.calls[0]);
    test::until([&] { return operation->done() && other->done(); },
                [&] {
                  for (Rank rank : {0, 1}) job.engine(rank).progress();
                });
    EXPECT_TRUE(operation->done());
    receiver.expect_right();
  }
}

TEST(Sends, NothingIsOverwrittenWhileTheWireStillReadsIt) {
  VirtualJob job({0, 1, 1});
  job.make_wire_read_late();
  auto world = job.create(1, everybody(3), {1, Bytes{40} << 10, 0});
  std::vector<Exchange> groups;
  std::vector<std::unique_ptr<Completion>> operations;
  for (Rank me = 0; me < 3; ++me) {
    groups.push_back({me, {}, {}, {}});
    groups.back().send((me + 1) % 3, 0, 50'000);
    groups.back().receive((me + 2) % 3, 0, 50'000);
    for (const Call& call : groups.back().calls)
      operations.push_back(test::start(job.engine(me), *world[static_cast<std::size_t>(me)], call));
  }
  auto done = [](const auto& operation) { return operation->done(); };
  test::until([&] { return std::all_of(operations.begin(), operations.end(), done); },
              [&] {
                for (Rank rank : {2, 0, 0, 1}) job.engine(rank).progress();
              });
  ASSERT_TRUE(std::all_of(operations.begin(), operations.end(), done));
  for (const Exchange& group : groups) group.expect_right();
}

// The rank that is not part of the message counts the others' calls alike.
TEST(Sends, BlockingOnesStandBetweenBlockingAllReduces) {
  VirtualJob job({0, 0, 0});
  auto world = job.create(1, everybody(3));
  job.each([&](Rank rank) {
    Communicator& mine = *world[static_cast<std::size_t>(rank)];
    for (int n = 0; n < 20; ++n) {
      Exchange group{rank, {}, {}, {}};
      if (rank == 0) group.send(1, n, 500);
      if (rank == 1) group.receive(0, n, 500);
      if (rank != 2) job.engine(rank).run(mine, group.calls[0]);
      group.expect_right();
      std::int32_t value = rank + n, sum = 0;
      job.engine(rank).run(mine, {&value, &sum, 1, DType::int32, Op::sum});
      EXPECT_EQ(sum, 3 * n + 3);
    }
  });
  for (Rank rank : {0, 1, 2}) EXPECT_EQ(job.engine(rank).failure(), "");
}

// By the sender, to whom the receiver's token comes; it sends no data then, but a word to the receiver.
TEST(Sends, DifferentCountsAtBothEndsAreNamed) {
  for (const auto& machine : {std::vector<HostIndex>{0, 0}, {0, 1}}) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(2));
    Exchange sender{0, {}, {}, {}}, receiver{1, {}, {}, {}};
    sender.send(1, 0, 10);
    receiver.receive(0, 0, 11);
    auto sent = test::start(job.engine(0), *world[0], sender.calls[0]);
    auto received = test::start(job.engine(1), *world[1], receiver.calls[0]);
    test::until([&] { return job.engine(0).failed() && job.engine(1).failed(); },
                [&] {
                  for (Rank rank : {0, 1}) job.engine(rank).progress();
                });
    EXPECT_NE(job.engine(0).failure().find("here it is send of 10 int32 to rank 1"), std::string::npos)
        << job.engine(0).failure();
    EXPECT_NE(job.engine(1).failure().find("here it is receive of 11 int32 from rank 0"), std::string::npos)
        << job.engine(1).failure();
  }
}

TEST(Sends, WhatCannotBeStartedIsRefused) {
  VirtualJob job({0, 0});
  auto world = job.create(1, everybody(2));
  Exchange group{0, {}, {}, {}};
  group.send(0, 0, 3);
  std::vector<Completion> done(1);
  EXPECT_THROW(job.engine(0).start_together(*world[0], group.calls, done), Error);
  group.calls[0].kind = Kind::broadcast;
  EXPECT_THROW(job.engine(0).start_together(*world[0], group.calls, done), Error);
}

}  // namespace ddl
