// All-gathers and reduce-scatters with blocks of unequal length, ranks as threads.
#include <gtest/gtest.h>

#include "core/collective/credit.hpp"
#include "core/collective/engine.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/unequal_buffers.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::PairwiseBuffers;
using test::UnequalBuffers;
using test::VirtualJob;
using test::Where;

const std::vector<std::vector<Elements>> kLengths = {
    {1000, 0, 7, 4097, 1, 64, 333, 50'001}, {0, 0, 0, 0, 9}, {0, 30'000}, {5, 5, 5, 5, 5, 5, 5, 5}, {0}};

// As blocking calls, too, of which small ones are made without an operation.
void run(VirtualJob& job, Rank me, Communicator& communicator, UnequalBuffers& buffers, bool at_once = true) {
  if (at_once) return job.engine(me).run(communicator, buffers.call);
  auto operation = test::start(job.engine(me), communicator, buffers.call);
  job.engine(me).wait(communicator, *operation);
}

}  // namespace

TEST(UnequalBlocks, EveryRankGetsWhatItIsPromisedOnEveryMachine) {
  for (const auto& machine : std::vector<std::vector<HostIndex>>{{0},
                                                                 {0, 0},
                                                                 {0, 0, 0, 0},
                                                                 {0, 1},
                                                                 {0, 0, 1, 2, 2, 2},
                                                                 {0, 0, 0, 0, 1, 1, 1, 1},
                                                                 {0, 1, 2, 0, 1, 2}})
    for (Bytes staging : {Bytes{1} << 20, Bytes{40} << 10}) {
      VirtualJob job(machine);
      auto world = job.create(1, everybody(job.size()), {2, staging, 0});
      job.each([&](Rank me) {
        for (Kind kind : {Kind::all_gather, Kind::reduce_scatter})
          for (const auto& lengths : kLengths)
            for (Where where : {Where::in_place, Where::apart}) {
              UnequalBuffers buffers(kind, lengths, me, job.size(), where);
              run(job, me, *world[static_cast<std::size_t>(me)], buffers, where == Where::apart);
              buffers.expect_right();
            }
      });
      for (Rank rank = 0; rank < job.size(); ++rank) ASSERT_EQ(job.engine(rank).failure(), "");
    }
}

// Who gives nothing holds the others up all the same, so that little gathers there.
TEST(UnequalBlocks, NobodyRunsAheadOfWhoGivesNothing) {
  VirtualJob job({0, 0, 1});
  auto world = job.create(1, everybody(3));
  std::vector<std::unique_ptr<UnequalBuffers>> buffers;
  std::vector<std::unique_ptr<Completion>> operations;
  for (Rank me = 0; me < 3; ++me)
    buffers.push_back(std::make_unique<UnequalBuffers>(Kind::all_gather, std::vector<Elements>{9, 0, 0}, me,
                                                       3, Where::apart));
  for (Rank me : {0, 1})
    operations.push_back(test::start(job.engine(me), *world[static_cast<std::size_t>(me)],
                                     buffers[static_cast<std::size_t>(me)]->call));
  for (int i = 0; i < 200; ++i)
    for (Rank me : {0, 1}) job.engine(me).progress();
  EXPECT_FALSE(operations[0]->done());
  operations.push_back(test::start(job.engine(2), *world[2], buffers[2]->call));
  auto done = [](const auto& operation) { return operation->done(); };
  test::until([&] { return std::all_of(operations.begin(), operations.end(), done); },
              [&] {
                for (Rank me : {0, 1, 2}) job.engine(me).progress();
              });
  for (Rank me = 0; me < 3; ++me) buffers[static_cast<std::size_t>(me)]->expect_right();
}

// Ranks that have nothing to do with each other do not wait for each other; all share one plan.
TEST(UnequalBlocks, PairsThatKnowTheirOwnLengthsAloneExchangeThem) {
  for (const auto& machine : std::vector<std::vector<HostIndex>>{
           {0}, {0, 0}, {0, 0, 0, 0}, {0, 1}, {0, 0, 1, 2, 2, 2}, {0, 1, 2, 0, 1}})
    for (auto [rails, reads] : {std::pair{RailId{1}, false}, {RailId{2}, false}, {RailId{1}, true}}) {
      VirtualJob job(machine);
      const PlanLimits limits{rails, Bytes{1} << 20, 0, {}, reads, reads};
      auto world = job.create(1, everybody(job.size()), limits);
      job.each([&](Rank me) {
        Communicator& mine = *world[static_cast<std::size_t>(me)];
        const Bytes bytes = reads ? Bytes{32} << 10 : Bytes{16} << 10;
        for (int round = 0; round < 64 / test::thinned(8); ++round) {
          PairwiseBuffers buffers(round % 8, me, job.size());
          PreparedPlan& plan = mine.plans().plan_for({Kind::all_to_all, 0, true}, bytes);
          EXPECT_EQ(reads_in_place(plan.plan), reads && job.size() > 1 && machine.back() == 0);
          if (round % 2)
            job.engine(me).run(mine, buffers.call, &plan);
          else
            job.engine(me).wait(mine, *test::start(job.engine(me), mine, buffers.call, &plan));
          buffers.expect_right();
        }
      });
      for (Rank rank = 0; rank < job.size(); ++rank) ASSERT_EQ(job.engine(rank).failure(), "");
    }
}

namespace {

// Calls of all ranks that are started, each by itself, and not waited for.
struct StartedPairwise {
  VirtualJob job;
  std::vector<Communicator*> world;
  struct One {
    std::unique_ptr<PairwiseBuffers> buffers;
    std::unique_ptr<Completion> done;
  };
  std::vector<std::vector<One>> calls;

  explicit StartedPairwise(const std::vector<HostIndex>& machine,
                           const PlanLimits& limits = {1, Bytes{1} << 20, 0})
      : job(machine), world(job.create(1, everybody(job.size()), limits)), calls(machine.size()) {}
  ~StartedPairwise() {
    for (Rank rank = 0; rank < job.size(); ++rank) job.engine(rank).fail("the test is over");
  }
  void start(Rank me, int pattern) {
    Communicator& mine = *world[static_cast<std::size_t>(me)];
    PreparedPlan& plan = mine.plans().plan_for({Kind::all_to_all, 0, true}, Bytes{64} << 10);
    auto buffers = std::make_unique<PairwiseBuffers>(pattern, me, job.size());
    auto done = test::start(job.engine(me), mine, buffers->call, &plan);
    calls[static_cast<std::size_t>(me)].push_back({std::move(buffers), std::move(done)});
  }
  void start_all_but_the_first(int pattern) {
    for (Rank me = 1; me < job.size(); ++me) start(me, pattern);
  }
  void progress(int times = 20) {
    for (int i = 0; i < times; ++i)
      for (Rank rank = 0; rank < job.size(); ++rank) job.engine(rank).progress();
  }
  int done(Rank rank) const {
    const auto& all = calls[static_cast<std::size_t>(rank)];
    return static_cast<int>(
        std::count_if(all.begin(), all.end(), [](auto& one) { return one.done->done(); }));
  }
  void finish() {
    auto all_done = [&] {
      bool all = true;
      for (Rank rank = 0; rank < job.size(); ++rank)
        all &= done(rank) == static_cast<int>(calls[static_cast<std::size_t>(rank)].size());
      return all;
    };
    test::until(all_done, [&] { progress(1); });
    ASSERT_TRUE(all_done());
    for (Rank rank = 0; rank < job.size(); ++rank) ASSERT_EQ(job.engine(rank).failure(), "");
    for (const auto& of_rank : calls)
      for (const One& one : of_rank) one.buffers->expect_right();
  }
};

}  // namespace

TEST(UnequalBlocks, WhoHasLittleForOthersIsSoManyCallsAheadOfThemAndNoMore) {
  constexpr int kLittle = 4, kAhead = static_cast<int>(Credit::kMostAhead);
  for (const auto& machine : std::vector<std::vector<HostIndex>>{{0, 0}, {0, 1}, {0, 0, 1, 2, 2, 2}}) {
    StartedPairwise all(machine);
    for (int i = 0; i < 2 * kAhead; ++i) all.start(0, kLittle);
    all.progress();
    EXPECT_EQ(all.done(0), 0) << "the first one waits until others have made it";
    all.start_all_but_the_first(kLittle);
    test::until([&] { return all.done(0) > kAhead; }, [&] { all.progress(1); });
    all.progress();
    EXPECT_EQ(all.done(0), 1 + kAhead) << machine.size() << " ranks";
    EXPECT_FALSE(all.job.engine(0).calls_longer_than(0).at(0).waits_for.empty());
    for (int i = 1; i < 2 * kAhead; ++i) all.start_all_but_the_first(kLittle);
    all.finish();
  }
}

// What is large would fill the others' memory.
TEST(UnequalBlocks, WhoHasMuchForOthersWaitsUntilTheyHaveBegun) {
  constexpr int kSome = 5, kMuch = 6;
  for (const auto& machine : std::vector<std::vector<HostIndex>>{{0, 0, 0}, {0, 1, 1}, {0, 1, 0, 2}})
    for (auto [pattern, reads] : {std::pair{kSome, false}, {kMuch, false}, {kMuch, true}}) {
      StartedPairwise all(machine, {1, Bytes{1} << 20, 0, {}, reads, reads});
      all.start(0, pattern);
      all.start_all_but_the_first(pattern);
      test::until([&] { return all.done(0) == 1; }, [&] { all.progress(1); });
      for (int i = 0; i < 3; ++i) all.start(0, pattern);
      all.progress(200);
      EXPECT_EQ(all.done(0), 1);
      EXPECT_FALSE(all.job.engine(0).calls_longer_than(0).at(0).waits_for.empty());
      for (int i = 0; i < 3; ++i) all.start_all_but_the_first(pattern);
      all.finish();
    }
}

TEST(UnequalBlocks, APairwiseCallOfMiddlingBlocksUsesBothRails) {
  for (const auto& machine : std::vector<std::vector<HostIndex>>{{0, 1}, {0, 0, 1, 1}, {0, 0, 1, 2, 2, 2}})
    for (int length : {4 << 10, 16 << 10, 48 << 10, 100'000}) {
      if (length == 4 << 10 && machine.size() == 2) continue;  // one block goes one way
      VirtualJob job(machine);
      auto world = job.create(1, everybody(job.size()), {2, Bytes{4} << 20, 0});
      job.each([&](Rank me) {
        Communicator& mine = *world[static_cast<std::size_t>(me)];
        PairwiseBuffers buffers(length, me, job.size());
        PreparedPlan& plan =
            mine.plans().plan_for({Kind::all_to_all, 0, true}, pairwise_bytes(Rooted::no, true, 2));
        job.engine(me).run(mine, buffers.call, &plan);
        buffers.expect_right();
      });
      Counters counted;
      std::vector<WireBytes> wire;
      job.engine(0).collect(counted, wire);
      ASSERT_EQ(wire.size(), 2u);
      EXPECT_GE(std::min(wire[0].sent, wire[1].sent) * 5, (wire[0].sent + wire[1].sent) * 2)
          << length << " elements: " << wire[0].sent << " and " << wire[1].sent << " bytes";
    }
}

// Host 2 sends nine blocks.
TEST(UnequalBlocks, BothRailsCarryAsMuchOverFourPairwiseCalls) {
  for (const bool has_barriers : {false, true}) {
    VirtualJob job({0, 0, 1, 2, 2, 2});
    auto world = job.create(1, everybody(job.size()), {2, Bytes{4} << 20, 0});
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      PairwiseBuffers buffers(4 << 10, me, job.size());
      PreparedPlan& plan =
          mine.plans().plan_for({Kind::all_to_all, 0, true}, pairwise_bytes(Rooted::no, true, 2));
      for (int i = 0; i < 4; ++i) {
        job.engine(me).run(mine, buffers.call, &plan);
        buffers.expect_right();
        std::uint8_t nothing = 0, same = 0;
        if (has_barriers)
          job.engine(me).run(mine, {&nothing, &same, 1, DType::uint8, Op::bor, "MPI_Barrier", now()});
      }
    });
    Counters counted;
    std::vector<WireBytes> wire;
    for (Rank rank = 3; rank < 6; ++rank) job.engine(rank).collect(counted, wire);
    ASSERT_EQ(wire.size(), 2u);
    EXPECT_NEAR(static_cast<double>(wire[0].sent), static_cast<double>(wire[1].sent), 1000) << has_barriers;
  }
}

TEST(UnequalBlocks, OtherLengthsOnAnotherRankAreNamed) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  job.each([&](Rank me) {
    const std::vector<Elements> lengths = me ? std::vector<Elements>{4, 9} : std::vector<Elements>{9, 4};
    UnequalBuffers buffers(Kind::all_gather, lengths, me, 2, Where::apart);
    run(job, me, *world[static_cast<std::size_t>(me)], buffers);
  });
  EXPECT_NE((job.engine(0).failure() + job.engine(1).failure()).find("all-gather of at most 9 int32"),
            std::string::npos);
}

}  // namespace ddl
