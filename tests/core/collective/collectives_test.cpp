// All collectives but all-reduce, ranks as threads: whole numbers, so that everything is exact.
#include <gtest/gtest.h>

#include <atomic>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/collective/engine.hpp"
#include "tests/support/call_buffers.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::VirtualJob;

using test::kAllKinds;
using test::Where;
using Buffers = test::CallBuffers;

void run(VirtualJob& job, Rank rank, Communicator& communicator, const Call& call) {
  auto operation = test::start(job.engine(rank), communicator, call);
  job.engine(rank).wait(communicator, *operation);
}

const std::vector<std::vector<HostIndex>> kMachinesForAllKinds = {{0},
                                                                  {0, 0},
                                                                  {0, 0, 0},
                                                                  {0, 0, 0, 0},
                                                                  {0, 1},
                                                                  {0, 0, 1, 2, 2, 2},
                                                                  {0, 0, 0, 0, 1, 1, 1, 1},
                                                                  {0, 1, 2, 0, 1, 2, 1}};

}  // namespace

TEST(Collectives, EveryRankGetsWhatItIsPromisedOnEveryMachine) {
  for (const auto& machine : kMachinesForAllKinds) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(job.size()), {2, Bytes{1} << 20, 0});
    job.each([&](Rank me) {
      for (Kind kind : kAllKinds)
        for (Elements count : {0, 1, 7, 1000, 4097, 50'001 / test::thinned(6)})
          for (Rank root = 0; root < (has_root(kind) ? std::min(job.size(), 3) : 1); ++root)
            for (Where where : {Where::in_place, Where::apart}) {
              Buffers buffers(kind, root, me, job.size(), count, where);
              run(job, me, *world[static_cast<std::size_t>(me)], buffers.call);
              buffers.expect_right(me, job.size());
            }
    });
    for (Rank rank = 0; rank < job.size(); ++rank) ASSERT_EQ(job.engine(rank).failure(), "");
  }
}

// Packed ones among them; the wire reads as late as it may.
TEST(Collectives, EveryWayOfSmallBlocksBetweenHostsComesOutRight) {
  for (const auto& machine : std::vector<std::vector<HostIndex>>{
           {0, 1}, {0, 0, 1, 1, 2}, {0, 0, 1, 2, 2, 2}, {0, 1, 2, 0, 1, 2, 1}, {0, 1, 2, 3, 4, 4}}) {
    VirtualJob job(machine);
    job.make_wire_read_late();
    auto world = job.create(1, everybody(job.size()), {2, Bytes{1} << 20, 0});
    std::atomic<int> packed{0};
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      for (Kind kind : kAllKinds)
        for (Elements count : {0, 1, 7, 1000})
          for (Rank root = 0; root < (has_root(kind) ? job.size() : 1); ++root)
            for (const TaskCandidate& way : mine.plans().candidates_for({kind, root}, count * sizeof(int))) {
              packed += way.choice.division == Division::packed;
              Buffers buffers(kind, root, me, job.size(), count, root % 2 ? Where::in_place : Where::apart);
              PreparedPlan& plan = mine.plans().prepare(way.choice, buffers.call.bytes());
              auto operation = test::start(job.engine(me), mine, buffers.call, &plan);
              job.engine(me).wait(mine, *operation);
              buffers.expect_right(me, job.size());
            }
    });
    EXPECT_GT(packed, 0);
    for (Rank rank = 0; rank < job.size(); ++rank) ASSERT_EQ(job.engine(rank).failure(), "");
  }
}

TEST(Collectives, ManySegmentsInLittleStagingComeOutRight) {
  for (const auto& machine : {std::vector<HostIndex>{0, 0, 0, 0}, {0, 0, 0, 1, 1, 2, 2}}) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(job.size()), {1, Bytes{40} << 10, 0});
    job.each([&](Rank me) {
      for (Kind kind : kAllKinds) {
        Buffers buffers(kind, has_root(kind) ? 1 : 0, me, job.size(), 100'003 / test::thinned(4),
                        Where::in_place);
        run(job, me, *world[static_cast<std::size_t>(me)], buffers.call);
        buffers.expect_right(me, job.size());
      }
    });
  }
}

TEST(Collectives, ManyCallsOfAllKindsInFlightAreDoneInTheirOrder) {
  VirtualJob job({0, 0, 1, 2, 2, 2});
  auto world = job.create(1, everybody(6));
  job.each([&](Rank me) {
    std::mt19937 random(11);
    std::vector<std::unique_ptr<Buffers>> buffers;
    std::vector<std::unique_ptr<Completion>> operations;
    Communicator& mine = *world[static_cast<std::size_t>(me)];
    for (int i = 0; i < 150; ++i) {
      Kind kind = i % 5 == 0 ? Kind::all_reduce : kAllKinds[random() % std::size(kAllKinds)];
      Elements count = random() % 4 == 0 ? random() % 9000 : random() % 30;
      buffers.push_back(std::make_unique<Buffers>(kind, static_cast<Rank>(random() % 6), me, 6, count,
                                                  random() % 2 ? Where::in_place : Where::apart));
      operations.push_back(test::start(job.engine(me), mine, buffers.back()->call));
    }
    for (std::size_t i = 0; i < operations.size(); ++i) {
      job.engine(me).wait(mine, *operations[i]);
      buffers[i]->expect_right(me, 6);
    }
  });
}

TEST(Collectives, NothingIsOverwrittenWhileTheWireStillReadsIt) {
  VirtualJob job({0, 0, 1, 1, 2});
  job.make_wire_read_late();
  auto world = job.create(1, everybody(5), {1, Bytes{40} << 10, 0});
  for (Kind kind : kAllKinds) {
    std::vector<std::unique_ptr<Buffers>> buffers;
    std::vector<std::unique_ptr<Completion>> operations;
    for (Rank me = 0; me < 5; ++me) {
      buffers.push_back(
          std::make_unique<Buffers>(kind, has_root(kind) ? 2 : 0, me, 5, 60'000, Where::in_place));
      operations.push_back(
          test::start(job.engine(me), *world[static_cast<std::size_t>(me)], buffers.back()->call));
    }
    auto done = [](const auto& operation) { return operation->done(); };
    test::until([&] { return std::all_of(operations.begin(), operations.end(), done); },
                [&] {
                  for (Rank rank : {3, 0, 0, 1, 4, 2, 4}) job.engine(rank).progress();
                });
    for (Rank me = 0; me < 5; ++me) {
      ASSERT_TRUE(operations[static_cast<std::size_t>(me)]->done()) << name_of(kind) << " on rank " << me;
      buffers[static_cast<std::size_t>(me)]->expect_right(me, 5);
    }
  }
}

void move(VirtualJob& job) {
  for (Rank me : {0, 1}) job.engine(me).progress();
}

// Of two ranks, once both have failed.
std::array<std::string, 2> failures_of(VirtualJob& job) {
  test::until([&] { return job.engine(0).failed() && job.engine(1).failed(); }, [&] { move(job); });
  return {job.engine(0).failure(), job.engine(1).failure()};
}

bool names(const std::string& failure, const std::string& mine, const std::string& theirs) {
  return failure.find("here it is " + mine + ", there " + theirs) != std::string::npos;
}

TEST(Collectives, DifferentKindsAndRootsOnTwoRanksAreNamed) {
  auto clash = [](Kind kind, Rank root, Kind other_kind, Rank other_root) {
    VirtualJob job({0, 0});
    auto world = job.create(1, {0, 1});
    job.each([&](Rank me) {
      Buffers buffers(me ? other_kind : kind, me ? other_root : root, me, 2, 100, Where::apart);
      auto operation = test::start(job.engine(me), *world[static_cast<std::size_t>(me)], buffers.call);
      job.engine(me).wait(*world[static_cast<std::size_t>(me)], *operation);
    });
    return failures_of(job);  // who only sends is done without hearing from others
  };
  const std::string of = " of 100 int32", sum = of + ", sum";
  for (const auto& [kind, root, other_kind, other_root, mine, theirs] :
       {std::tuple{Kind::broadcast, 0, Kind::all_gather, 0, "broadcast" + of + " from rank 0",
                   "all-gather" + of},
        {Kind::all_reduce, 0, Kind::reduce, 0, "all-reduce" + sum, "reduce" + sum + " to rank 0"},
        {Kind::gather, 0, Kind::gather, 1, "gather" + of + " to rank 0", "gather" + of + " to rank 1"}}) {
    const auto failures = clash(kind, root, other_kind, other_root);
    EXPECT_TRUE(names(failures[0], mine, theirs)) << failures[0];
    EXPECT_TRUE(names(failures[1], theirs, mine)) << failures[1];
  }
}

// What one has done without hearing from anybody is not under way any more; and the other shows nothing.
TEST(Collectives, ACallThatIsDoneAndWasAnotherOneFailsWithoutHelp) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  job.each([&](Rank me) {
    Buffers sum(Kind::all_reduce, 0, me, 2, 1, Where::apart);
    job.engine(me).run(*world[static_cast<std::size_t>(me)], sum.call);
  });
  Buffers given(Kind::broadcast, 0, 0, 2, 100, Where::apart), added(Kind::reduce, 0, 1, 2, 100, Where::apart);
  auto broadcast = test::start(job.engine(0), *world[0], given.call);
  EXPECT_TRUE(broadcast->done());
  auto reduce = test::start(job.engine(1), *world[1], added.call);
  test::until([&] { return job.engine(0).failed(); }, [&] { job.engine(0).progress(); });
  EXPECT_NE(job.engine(0).failure().find("here it is broadcast of 100 int32 from rank 0, there another kind"),
            std::string::npos)
      << job.engine(0).failure();
}

// Both only receive, so that nothing would ever arrive; one is shown the other's call before it makes its
// own.
TEST(Collectives, DifferentCallsThatSendNothingAreNamedAfterAWhile) {
  for (const std::vector<HostIndex>& hosts : {std::vector<HostIndex>{0, 0}, {0, 1}}) {
    VirtualJob job(hosts);
    auto world = job.create(1, {0, 1});
    Buffers gathered(Kind::gather, 0, 0, 2, 100, Where::apart),
        scattered(Kind::scatter, 0, 1, 2, 100, Where::apart);
    job.each([&](Rank me) {  // a first call exchanges tokens
      Buffers sum(Kind::all_reduce, 0, me, 2, 1, Where::apart);
      job.engine(me).run(*world[static_cast<std::size_t>(me)], sum.call);
    });
    gathered.call.began = now() - 1'500'000'000;
    scattered.call.began = now();
    auto gather = test::start(job.engine(0), *world[0], gathered.call);
    for (int i = 0; i < 10; ++i) {  // the other one is not there yet
      job.engine(0).show_long_calls();
      move(job);
    }
    EXPECT_FALSE(job.engine(0).failed() || job.engine(1).failed());
    auto scatter = test::start(job.engine(1), *world[1], scattered.call);
    const auto failures = failures_of(job);
    EXPECT_TRUE(names(failures[0], "gather of 100 int32 to rank 0", "scatter of 100")) << failures[0];
    EXPECT_TRUE(names(failures[1], "scatter of 100 int32 from rank 0", "gather of 100")) << failures[1];
  }
}

// Who has nothing to do has done its call when it hears of the other one.
TEST(Collectives, ACallWithoutElementsIsNamedBesideAnother) {
  for (const std::vector<HostIndex>& hosts : {std::vector<HostIndex>{0, 0}, {0, 1}}) {
    VirtualJob job(hosts);
    auto world = job.create(1, {0, 1});
    Buffers nothing(Kind::all_reduce, 0, 0, 2, 0, Where::apart),
        gathered(Kind::all_gather, 0, 1, 2, 100, Where::apart);
    auto empty = test::start(job.engine(0), *world[0], nothing.call);
    auto gather = test::start(job.engine(1), *world[1], gathered.call);
    const auto failures = failures_of(job);
    EXPECT_TRUE(names(failures[0], "all-reduce of 0 int32, sum", "all-gather of 100")) << failures[0];
    EXPECT_TRUE(names(failures[1], "all-gather of 100 int32", "all-reduce of 0")) << failures[1];
  }
}

TEST(Collectives, ARootThatDoesNotExistIsRefused) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  Buffers buffers(Kind::broadcast, 0, 0, 2, 4, Where::apart);
  buffers.call.root = 2;
  EXPECT_THROW(job.engine(0).run(*world[0], buffers.call), Error);
}

}  // namespace ddl
