#include "core/collective/engine.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "tests/support/sums.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::expect_sum;
using test::shares;
using test::VirtualJob;

struct Pending {
  std::unique_ptr<Completion> operation;
  std::vector<float> in, out;
};

const std::vector<std::vector<HostIndex>> kMachines = {{0},
                                                       {0, 0},
                                                       {0, 0, 0},
                                                       {0, 0, 0, 0, 0, 0, 0},
                                                       {0, 1},
                                                       {0, 0, 1, 1, 2, 2},
                                                       {0, 0, 1, 2, 2, 2},
                                                       {0, 1, 2, 0, 1, 2, 1}};

}  // namespace

TEST(Engine, EveryRankGetsTheSumOnEveryMachine) {
  for (const auto& machine : kMachines) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(job.size()), {2, Bytes{1} << 20, 0});
    for (Elements count : {0, 1, 2, 3, 7, 64, 1000, 4097, 300'000 / test::thinned(10)}) {
      job.each([&](Rank rank) {
        std::vector<float> in = shares(rank, count, 3), out(count, -1);
        Call call{in.data(), out.data(), count, DType::float32, Op::sum};
        Communicator& communicator = *world[static_cast<std::size_t>(rank)];
        auto operation = test::start(job.engine(rank), communicator, call);
        job.engine(rank).wait(communicator, *operation);
        expect_sum(out, everybody(job.size()), 3);
        EXPECT_EQ(in, shares(rank, count, 3)) << "the input was changed";
      });
    }
    for (Rank rank = 0; rank < job.size(); ++rank) EXPECT_EQ(job.engine(rank).failure(), "");
  }
}

TEST(Engine, InPlaceAndUnalignedBuffersWork) {
  VirtualJob job({0, 0, 1, 2, 2, 2});
  auto world = job.create(1, everybody(job.size()));
  job.each([&](Rank rank) {
    constexpr Elements kCount = 70'001;
    std::vector<std::byte> memory(kCount * sizeof(float) + 3);
    std::vector<float> values = shares(rank, kCount, 9);
    std::memcpy(memory.data() + 3, values.data(), kCount * sizeof(float));
    Communicator& communicator = *world[static_cast<std::size_t>(rank)];
    Call call{memory.data() + 3, memory.data() + 3, kCount, DType::float32, Op::sum};
    auto operation = test::start(job.engine(rank), communicator, call);
    job.engine(rank).wait(communicator, *operation);
    std::memcpy(values.data(), memory.data() + 3, kCount * sizeof(float));
    expect_sum(values, everybody(job.size()), 9);
  });
}

// Whose turn it is follows from the number of the call, however the call is made.
TEST(Engine, CallsWithShiftedOwnersMayBeBlockingOrNot) {
  VirtualJob job({0, 0, 1, 1, 1, 2});
  auto world = job.create(1, everybody(job.size()));
  job.each([&](Rank rank) {
    Communicator& communicator = *world[static_cast<std::size_t>(rank)];
    PlanChoice choice = communicator.plans().plan_for({}, 4096).choice;
    choice.algorithm = {Algorithm::funnel, Algorithm::funnel};
    PreparedPlan& plan = communicator.plans().prepare(choice, 4096);
    ASSERT_GT(plan.shifted.size(), 1u);
    constexpr std::uint32_t kCalls = 200;
    std::vector<std::vector<float>> values;
    std::vector<std::unique_ptr<Completion>> under_way;
    for (std::uint32_t i = 0; i < kCalls; ++i) values.push_back(shares(rank, 1024, i));
    for (std::uint32_t i = 0; i < kCalls; ++i) {
      Call call{values[i].data(), values[i].data(), 1024, DType::float32, Op::sum};
      if (i == kCalls / 2)  // from here on nothing else is under way
        for (auto& one : under_way) job.engine(rank).wait(communicator, *one);
      if (i % 3 == 0 || i >= kCalls / 2)
        job.engine(rank).run(communicator, call, &plan);
      else
        under_way.push_back(test::start(job.engine(rank), communicator, call, &plan));
    }
    for (std::uint32_t i = 0; i < kCalls; ++i) expect_sum(values[i], everybody(job.size()), i);
  });
  for (Rank rank = 0; rank < job.size(); ++rank) EXPECT_EQ(job.engine(rank).failure(), "");
}

// 16-byte elements, larger than any kernel's; a helper thread that looks on must not call the function.
TEST(Engine, AReductionOfTheCallersOwnIsCalledByItsThreadsAlone) {
  struct Pair {
    double value;
    std::int64_t from;
  };
  struct Own {
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> strangers{0}, calls{0};
    static void larger(void* self, const void* in, void* inout, Elements count) {
      auto* own = static_cast<Own*>(self);
      ++own->calls;
      own->strangers += std::this_thread::get_id() != own->caller;
      for (Elements i = 0; i < count; ++i)
        if (const Pair& one = static_cast<const Pair*>(in)[i]; one.value > static_cast<Pair*>(inout)[i].value)
          static_cast<Pair*>(inout)[i] = one;
    }
  };
  for (const auto& machine : kMachines) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(job.size()));
    std::atomic<int> calls{0};
    for (Elements count : {1, 7, 1000, 70'001 / test::thinned(5)}) {
      job.each([&](Rank rank) {
        Own own;
        std::vector<Pair> in(count), out(count);
        for (Elements i = 0; i < count; ++i)
          in[i] = {static_cast<double>((i + static_cast<Elements>(rank) * 5) % 11), rank};
        const std::vector<Pair> before = in;
        Communicator& communicator = *world[static_cast<std::size_t>(rank)];
        Call call{in.data(), out.data(), count, DType::bytes16, Op::bor};
        call.own = {Own::larger, &own};
        auto operation = test::start(job.engine(rank), communicator, call);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        job.engine(rank).wait(communicator, *operation);
        EXPECT_EQ(own.strangers, 0);
        calls += own.calls;
        EXPECT_EQ(std::memcmp(in.data(), before.data(), count * sizeof(Pair)), 0) << "the input was changed";
        for (Elements i = 0; i < count; ++i) {
          double most = -1;
          for (Rank r = 0; r < job.size(); ++r)
            most = std::max(most, static_cast<double>((i + static_cast<Elements>(r) * 5) % 11));
          ASSERT_EQ(out[i].value, most) << i;
          ASSERT_EQ(static_cast<double>((i + static_cast<Elements>(out[i].from) * 5) % 11), most);
        }
      });
    }
    EXPECT_EQ(calls > 0, job.size() > 1);
  }
}

TEST(Engine, AHundredOperationsOnThreeCommunicatorsAdvanceInRandomOrderFromOneThread) {
  VirtualJob job({0, 0, 1, 2, 2, 2});
  const std::vector<std::vector<Rank>> groups = {{0, 1, 2, 3, 4, 5}, {5, 3, 1, 0}, {4, 2, 0}};
  std::vector<std::vector<Communicator*>> communicators;
  for (std::size_t g = 0; g < groups.size(); ++g) communicators.push_back(job.create(g + 1, groups[g]));
  std::mt19937 random(7);
  std::vector<std::vector<std::unique_ptr<Pending>>> pending(groups.size());  // by group: call-major
  constexpr std::uint32_t kCalls = 34;                                        // 3 × 34 > 100
  std::vector<Elements> counts;
  for (std::uint32_t i = 0; i < kCalls; ++i)
    counts.push_back(random() % 5 == 0 ? 40'000 + random() % 9999 : random() % 99);
  // Every rank starts its calls in its own interleaving of the communicators.
  for (Rank rank = 0; rank < job.size(); ++rank) {
    std::vector<std::uint32_t> next(groups.size(), 0);
    for (std::uint32_t left = kCalls * 3; left > 0; --left) {
      std::size_t g = random() % 3;
      while (next[g] == kCalls) g = (g + 1) % 3;
      std::uint32_t call = next[g]++;
      auto at = std::find(groups[g].begin(), groups[g].end(), rank);
      if (at == groups[g].end()) continue;
      auto one = std::make_unique<Pending>();
      one->in = shares(rank, counts[call], call);
      one->out.assign(counts[call], -1);
      one->operation =
          test::start(job.engine(rank), *communicators[g][static_cast<std::size_t>(at - groups[g].begin())],
                      {one->in.data(), one->out.data(), counts[call], DType::float32, Op::sum});
      pending[g].push_back(std::move(one));
      if (random() % 3 == 0) job.engine(static_cast<Rank>(random() % 6)).progress();
    }
  }
  for (int round = 0; round < 2'000'000; ++round) {
    job.engine(static_cast<Rank>(random() % 6)).progress();
    if (round % 1000) continue;
    bool all = true;
    for (auto& group : pending)
      for (auto& one : group) all &= one->operation->done();
    if (all) break;
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t i = 0; i < pending[g].size(); ++i) {
      ASSERT_TRUE(pending[g][i]->operation->done()) << "group " << g << " call " << i;
      expect_sum(pending[g][i]->out, groups[g], static_cast<std::uint32_t>(i % kCalls));
    }
}

TEST(Engine, EveryTypeAndOperationGivesTheSameBitsOnEveryRank) {
  VirtualJob job({0, 0, 1, 2, 2, 2});
  auto world = job.create(1, everybody(job.size()));
  constexpr Elements kCount = 999;
  for (int type = 0; type < kDTypes; ++type)
    for (int op = 0; op < kOps; ++op) {
      auto t = static_cast<DType>(type);
      auto o = static_cast<Op>(op);
      if (!is_reducible(t, o)) continue;
      std::vector<std::vector<std::byte>> results(6);
      job.each([&](Rank rank) {
        std::mt19937 random(static_cast<unsigned>(rank) + 1);
        std::vector<std::byte> in(kCount * size_of(t)), out(in.size());
        for (std::byte& b : in) b = static_cast<std::byte>(random() & 0x3b);  // no NaNs in any format
        Communicator& communicator = *world[static_cast<std::size_t>(rank)];
        auto operation = test::start(job.engine(rank), communicator, {in.data(), out.data(), kCount, t, o});
        job.engine(rank).wait(communicator, *operation);
        results[static_cast<std::size_t>(rank)] = out;
      });
      for (const auto& result : results) EXPECT_EQ(result, results[0]) << name_of(t) << " " << name_of(o);
    }
}

// Blocking calls that are done at once, those whose peers come late and started ones follow each other in any
// mixture, which differs between the ranks; an operation on another communicator is under way now and then.
TEST(Engine, BlockingCallsDoneAtOnceMixWithAllOthers) {
  constexpr int kPauses = 20, kYields = 0;
  for (auto [size, spins] : {std::pair{2, kPauses}, {3, kPauses}, {7, kPauses}, {2, kYields}, {5, kYields}}) {
    VirtualJob job(std::vector<HostIndex>(static_cast<std::size_t>(size), 0), Bytes{8} << 20, 0, spins);
    auto world = job.create(1, everybody(size)), other = job.create(2, everybody(size));
    job.each([&, size = size](Rank rank) {
      Engine& engine = job.engine(rank);
      auto me = static_cast<std::size_t>(rank);
      std::mt19937 alike(5), alone(static_cast<unsigned>(rank));
      std::vector<float> side_in = shares(rank, 300, 1), side_out(300);
      std::unique_ptr<Completion> side;
      for (std::uint32_t i = 0; i < 600 / test::thinned(6); ++i) {
        Elements count = std::array<Elements, 8>{0, 1, 22, 23, 4096, 9000, 16384, 17000}[alike() % 8];
        bool starts_side = alike() % 16 == 0, ends_side = alike() % 16 == 0;
        if (starts_side && !side)
          side = test::start(engine, *other[me],
                             {side_in.data(), side_out.data(), 300, DType::float32, Op::sum});
        if (alone() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
        std::vector<float> in = shares(rank, count, i), out(count, -1);
        Call call{in.data(), out.data(), count, DType::float32, Op::sum};
        if (alone() % 3 > 0) {
          engine.run(*world[me], call);
        } else {
          auto operation = test::start(engine, *world[me], call);
          engine.wait(*world[me], *operation);
        }
        expect_sum(out, everybody(size), i);
        if (!side || !ends_side) continue;
        engine.wait(*other[me], *side);
        side.reset();
        expect_sum(side_out, everybody(size), 1);
      }
      if (side) engine.wait(*other[me], *side);
    });
    for (Rank rank = 0; rank < size; ++rank) EXPECT_EQ(job.engine(rank).failure(), "");
  }
}

TEST(Engine, ABlockingCallWhosePeerIsThereNeedsNoOperation) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  std::vector<float> in = shares(0, 500, 1), out(500), late_in = shares(1, 500, 1), late_out(500);
  auto first = test::start(job.engine(0), *world[0], {in.data(), out.data(), 500, DType::float32, Op::sum});
  Call second{late_in.data(), late_out.data(), 500, DType::float32, Op::sum};
  job.engine(1).run(*world[1], second);
  expect_sum(late_out, {0, 1}, 1);
  EXPECT_TRUE(job.engine(0).test(*first));
  expect_sum(out, {0, 1}, 1);
}

// A message that the program has sent with the original library may be what the others wait for.
TEST(Engine, WhoNeverWaitsMovesTheOriginalLibraryToo) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  std::vector<float> in = shares(0, 5, 1), out(5), late_in = shares(1, 5, 1), late_out(5);
  Call first{in.data(), out.data(), 5, DType::float32, Op::sum};
  Call second{late_in.data(), late_out.data(), 5, DType::float32, Op::sum};
  for (int i = 0; i < 1000; ++i) {
    auto operation = test::start(job.engine(0), *world[0], first);
    job.engine(1).run(*world[1], second);
    job.engine(0).wait(*world[0], *operation);
  }
  EXPECT_GE(job.host_progressed(1), 10);
}

// One-shot operations use two blocks in turn, because who has finished one has heard from everybody.
TEST(Engine, ACallWithoutElementsDoesNotTakeABlocksTurn) {
  constexpr std::size_t kCount = 1000;
  VirtualJob job({0, 0, 0});
  auto world = job.create(1, everybody(job.size()));
  std::vector<std::vector<float>> in, out(3, std::vector<float>(kCount));
  for (Rank rank = 0; rank < 3; ++rank) in.push_back(shares(rank, kCount, 1));
  std::vector<float> nothing, other = shares(7, kCount, 2), unused(kCount);
  std::vector<std::unique_ptr<Completion>> under_way;
  // A helper may be at work when the buffers go.
  struct AtTheEnd {
    VirtualJob& job;
    ~AtTheEnd() {
      for (Rank rank : {0, 1, 2}) job.engine(rank).fail("the test is over");
    }
  } at_the_end{job};
  auto start = [&](Rank rank, const std::vector<float>& from, std::vector<float>& to, std::size_t count) {
    under_way.push_back(test::start(job.engine(rank), *world[static_cast<std::size_t>(rank)],
                                    {from.data(), to.data(), count, DType::float32, Op::sum}));
    return under_way.back().get();
  };
  ASSERT_TRUE(world[0]->plans().plan_for({}, kCount * sizeof(float)).is_one_shot);
  Completion* a = start(0, in[0], out[0], kCount);
  Completion* late = start(1, in[1], out[1], kCount);
  job.engine(1).progress();  // rank 1 holds rank 0's share and waits for that of rank 2
  start(2, in[2], out[2], kCount);
  job.engine(0).progress();
  job.engine(0).wait(*world[0], *a);
  ASSERT_TRUE(a->done());  // and the late one is not, unless its helper was quick
  EXPECT_TRUE(start(0, nothing, nothing, 0)->done());
  start(0, other, unused, kCount);
  test::until([&] { return late->done(); }, [&] { job.engine(1).progress(); });
  ASSERT_TRUE(late->done());
  expect_sum(out[1], {0, 1, 2}, 1);
}

TEST(Engine, MessagesForACommunicatorThatIsNotCreatedYetAreKept) {
  VirtualJob job({0, 0});
  std::vector<float> in0 = shares(0, 5000, 1), in1 = shares(1, 5000, 1), out0(5000), out1(5000);
  auto make = [&](Rank me) -> Communicator& {
    std::vector<HostIndex> hosts = {0, 0};
    Members members{{0, 1}, me, hosts, Grid::from_hosts(hosts)};
    return job.engine(me).create(77,
                                 std::make_shared<PlanStore>(members, PlanLimits{1, Bytes{1} << 20, 0, {}}));
  };
  Communicator& first = make(0);
  auto a = test::start(job.engine(0), first, {in0.data(), out0.data(), 5000, DType::float32, Op::sum});
  job.engine(1).progress();
  job.engine(0).progress();
  Communicator& second = make(1);
  auto b = test::start(job.engine(1), second, {in1.data(), out1.data(), 5000, DType::float32, Op::sum});
  test::until([&] { return a->done() && b->done(); },
              [&] {
                job.engine(0).progress();
                job.engine(1).progress();
              });
  ASSERT_TRUE(a->done() && b->done());
  expect_sum(out0, {0, 1}, 1);
  expect_sum(out1, {0, 1}, 1);
}

TEST(Engine, DifferentCallsOnTwoRanksAreNamedAndNothingHangs) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  job.each([&](Rank rank) {
    std::vector<float> values(rank == 0 ? 100 : 101);
    job.engine(rank).run(*world[static_cast<std::size_t>(rank)],
                         {values.data(), values.data(), values.size(), DType::float32, Op::sum});
  });
  EXPECT_NE(job.engine(0).failure().find("all-reduce of 100 float32, sum"), std::string::npos);
  EXPECT_NE(job.engine(1).failure().find("all-reduce of 101 float32, sum"), std::string::npos);
}

TEST(Engine, ABufferIsNotOverwrittenWhileTheWireStillReadsIt) {
  // Two hosts, one rank each, in place: what a rank sends is where its result goes.
  VirtualJob job({0, 1});
  job.make_wire_read_late();
  auto world = job.create(1, {0, 1});
  std::vector<std::vector<float>> values = {shares(0, 100, 4), shares(1, 100, 4)};
  std::vector<std::unique_ptr<Completion>> operations;
  for (Rank rank : {0, 1}) {
    auto& v = values[static_cast<std::size_t>(rank)];
    operations.push_back(test::start(job.engine(rank), *world[static_cast<std::size_t>(rank)],
                                     {v.data(), v.data(), v.size(), DType::float32, Op::sum}));
  }
  test::until([&] { return operations[0]->done() && operations[1]->done(); },
              [&] {
                for (Rank rank : {1, 1, 0}) job.engine(rank).progress();  // one side is ahead
              });
  ASSERT_TRUE(operations[0]->done() && operations[1]->done());
  for (const auto& v : values) expect_sum(v, {0, 1}, 4);
}

TEST(Engine, AnOperationIsDoneOnlyWhenItsWireIsFlushed) {
  VirtualJob job({0, 1});
  job.hold_flushes();
  auto world = job.create(1, {0, 1});
  std::vector<std::vector<float>> values = {shares(0, 70'000, 4), shares(1, 70'000, 4)};
  std::vector<std::unique_ptr<Completion>> operations;
  for (Rank rank : {0, 1}) {
    auto& v = values[static_cast<std::size_t>(rank)];
    operations.push_back(test::start(job.engine(rank), *world[static_cast<std::size_t>(rank)],
                                     {v.data(), v.data(), v.size(), DType::float32, Op::sum}));
  }
  auto progress = [&] {
    for (Rank rank : {0, 1}) job.engine(rank).progress();
  };
  test::until([&] { return job.flushes(0) > 0 && job.flushes(1) > 0; }, progress);
  for (int round = 0; round < 100; ++round) progress();
  for (Rank rank : {0, 1}) {
    const auto& v = values[static_cast<std::size_t>(rank)];
    expect_sum(v, {0, 1}, 4);
    EXPECT_EQ(job.flushes(rank), 1);
    EXPECT_FALSE(operations[static_cast<std::size_t>(rank)]->done());
    job.let_flushes_go(rank);
  }
  test::until([&] { return operations[0]->done() && operations[1]->done(); }, progress);
}

TEST(Engine, TimedOperationsTellWhatEachDimensionTook) {
  VirtualJob job({0, 0, 1, 1});
  auto world = job.create(1, everybody(4));
  job.each([&](Rank rank) {
    Communicator& mine = *world[static_cast<std::size_t>(rank)];
    std::vector<float> values = shares(rank, 300'000, 2);
    Call call{values.data(), values.data(), values.size(), DType::float32, Op::sum};
    for (bool timed : {false, true}) {
      if (timed) job.engine(rank).time_dimensions(mine);
      Observed observed;
      job.engine(rank).run(mine, call, nullptr, &observed);
      EXPECT_EQ(observed.dimensions.size(), timed ? 2u : 0u);
      for (Nanoseconds time : observed.dimensions) EXPECT_GT(time, 0);
    }
  });
}

TEST(Engine, CommunicatorsComeAndGoWithoutUsingUpTheStaging) {
  VirtualJob job({0, 0, 0}, Bytes{4} << 20);
  for (CommId id = 1; id < 40; ++id) {
    auto communicators = job.create(id, {2, 0, 1});
    job.each([&](Rank rank) {
      Communicator& mine = *communicators[static_cast<std::size_t>((rank + 1) % 3)];
      std::vector<float> values = shares(rank, 20'000, 0);
      auto operation = test::start(job.engine(rank), mine,
                                   {values.data(), values.data(), values.size(), DType::float32, Op::sum});
      job.engine(rank).wait(mine, *operation);
      expect_sum(values, everybody(3), 0);
    });
    for (Rank rank = 0; rank < 3; ++rank)
      job.engine(rank).destroy(*communicators[static_cast<std::size_t>((rank + 1) % 3)]);
  }
}

}  // namespace ddl
