// All-gathers and reduce-scatters with blocks of unequal length, ranks as threads.
#include <gtest/gtest.h>

#include "core/collective/credit.hpp"
#include "core/collective/engine.hpp"
#include "core/collective/padded_call.hpp"
#include "core/collective/reduce_all.hpp"
#include "tests/support/call_buffers.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::share;
using test::VirtualJob;
using test::Where;

constexpr std::int32_t kUntouched = -77;
constexpr Elements kGap = 3;

const std::vector<std::vector<Elements>> kLengths = {
    {1000, 0, 7, 4097, 1, 64, 333, 50'001}, {0, 0, 0, 0, 9}, {0, 30'000}, {5, 5, 5, 5, 5, 5, 5, 5}, {0}};

std::vector<Elements> lengths_for(const std::vector<Elements>& some, Rank ranks) {
  std::vector<Elements> lengths(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < lengths.size(); ++r) lengths[r] = some[r % some.size()];
  return lengths;
}

// The buffers of one rank; the blocks lie in their order from the last to the first, with gaps.
struct UnequalBuffers {
  std::vector<Elements> lengths;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> many, own;
  Call call;
  Rank me, ranks;

  UnequalBuffers(Kind kind, const std::vector<Elements>& some, Rank my_rank, Rank all, Where where)
      : lengths(lengths_for(some, all)),
        offsets(lengths.size()),
        call{nullptr, nullptr, *std::max_element(lengths.begin(), lengths.end()), DType::int32, Op::sum, "",
             0,       kind},
        me(my_rank),
        ranks(all) {
    Elements end = kGap;
    for (std::size_t r = lengths.size(); r-- > 0; end += lengths[r] + kGap)
      offsets[r] = static_cast<std::int64_t>(end);
    many.assign(end, kUntouched);
    own.assign(length(me) + kGap, kUntouched);
    call.lengths = 1;
    for (Elements one : lengths) call.lengths = call.lengths * 31 + one;
    call.in_blocks.counts = call.out_blocks.counts = lengths.data();
    const bool gathers = kind == Kind::all_gather;
    (gathers ? call.out_blocks : call.in_blocks).offsets = offsets.data();
    void* one = where == Where::in_place ? static_cast<void*>(block(me)) : own.data();
    call.in = gathers ? one : many.data();
    call.out = gathers ? static_cast<void*>(many.data()) : one;
    for (Elements i = 0; gathers && i < length(me); ++i) static_cast<std::int32_t*>(one)[i] = share(me, 0, i);
    for (Rank b = 0; !gathers && b < ranks; ++b)
      for (Elements i = 0; i < length(b); ++i) block(b)[i] = share(me, static_cast<Elements>(b), i);
  }

  Elements length(Rank rank) const { return lengths[static_cast<std::size_t>(rank)]; }
  std::int32_t* block(Rank rank) { return many.data() + offsets[static_cast<std::size_t>(rank)]; }

  void expect_right() {
    const bool gathers = call.kind == Kind::all_gather;
    const auto* result = static_cast<const std::int32_t*>(call.out);
    for (Rank b = gathers ? 0 : me; b < (gathers ? ranks : me + 1); ++b) {
      const std::int32_t* at = gathers ? block(b) : result;
      for (Elements i = 0; i < length(b); ++i)
        ASSERT_EQ(at[i], test::promised(call, me, ranks, static_cast<Elements>(b), i))
            << describe(call) << ": block " << b << ", element " << i << " of rank " << me << " of " << ranks;
    }
    for (Rank b = 0; b < ranks; ++b)
      for (Elements i = 1; i <= kGap; ++i) ASSERT_EQ(*(block(b) - i), kUntouched) << describe(call);
    ASSERT_EQ(own.back(), kUntouched) << describe(call);
  }
};

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

namespace {

// What rank `from` has for rank `to`, which these two alone know.
Elements between(Rank from, Rank to, int pattern) {
  constexpr int kAllAlike = 1000;  // from here on it is the length
  if (pattern >= kAllAlike) return static_cast<Elements>(pattern);
  switch (pattern) {
    case 0:  // to one, who gives nothing
      return to == 0 && from != 0 ? 30'000 : 0;
    case 1:  // to the next one around alone
      return to == from + 1 ? 7 : 0;
    case 2:
      return static_cast<Elements>(from * 4099 + to * 513) % 9001;
    case 3:
      return from == to ? 5 : 0;
    case 4:
      return from == 0 && to != 0 ? 7 : 0;
    case 5:  // little for some, much for others
      return from == 0 && to != 0 ? (to % 2 ? 7 : 30'000) : 0;
    case 6:
      return from == 0 && to != 0 ? 30'000 : 0;
    default:
      return static_cast<Elements>(from + to) % 3;
  }
}

struct PairwiseBuffers {
  std::vector<Elements> given, taken;
  std::vector<std::int64_t> given_at, taken_at;
  std::vector<std::int32_t> in, out;
  Call call;
  Rank me;

  PairwiseBuffers(int pattern, Rank my_rank, Rank ranks)
      : call{nullptr, nullptr, 0, DType::int32, Op::sum, "", 0, Kind::all_to_all}, me(my_rank) {
    for (Rank r = 0; r < ranks; ++r) {
      given.push_back(between(me, r, pattern));
      taken.push_back(between(r, me, pattern));
      given_at.push_back(static_cast<std::int64_t>(in.size()));
      for (Elements i = 0; i < given.back(); ++i) in.push_back(share(me, static_cast<Elements>(r), i));
      out.resize(out.size() + kGap, kUntouched);
      taken_at.push_back(static_cast<std::int64_t>(out.size()));
      out.resize(out.size() + taken.back(), kUntouched);
      call.count = std::max({call.count, given.back(), taken.back()});
    }
    call.in = in.data();
    call.out = out.data();
    call.in_blocks = {given.data(), given_at.data()};
    call.out_blocks = {taken.data(), taken_at.data()};
    call.lengths = 1;
    call.pairwise = true;
  }

  void expect_right() const {
    std::size_t at = 0;
    for (std::size_t r = 0; r < taken.size(); ++r) {
      for (Elements i = 0; i < kGap; ++i) ASSERT_EQ(out[at++], kUntouched);
      for (Elements i = 0; i < taken[r]; ++i)
        ASSERT_EQ(out[at++], share(static_cast<Rank>(r), static_cast<Elements>(me), i))
            << "from " << r << " to " << me << ", element " << i;
    }
  }
};

}  // namespace

// Ranks that have nothing to do with each other do not wait for each other; all share one plan.
TEST(UnequalBlocks, PairsThatKnowTheirOwnLengthsAloneExchangeThem) {
  for (const auto& machine : std::vector<std::vector<HostIndex>>{
           {0}, {0, 0}, {0, 0, 0, 0}, {0, 1}, {0, 0, 1, 2, 2, 2}, {0, 1, 2, 0, 1}})
    for (RailId rails : {RailId{1}, RailId{2}}) {
      VirtualJob job(machine);
      auto world = job.create(1, everybody(job.size()), {rails, Bytes{1} << 20, 0});
      job.each([&](Rank me) {
        Communicator& mine = *world[static_cast<std::size_t>(me)];
        for (int round = 0; round < 64; ++round) {
          PairwiseBuffers buffers(round % 8, me, job.size());
          PreparedPlan& plan = mine.plans().plan_for({Kind::all_to_all, 0, true}, Bytes{16} << 10);
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

// Short and long blocks in one call, short ones alone, and none.
TEST(UnequalBlocks, ShortOnesThatArePaddedArriveWithTheOthers) {
  constexpr Bytes kPadded = 256;
  for (const auto& machine : std::vector<std::vector<HostIndex>>{
           {0, 0, 1, 1, 2, 2}, {0, 1}, {0, 0, 1, 2, 2, 2}, {0, 1, 2, 0, 1}, {0, 0, 0}}) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(job.size()));
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      auto plan_for = [&](Task task, Bytes bytes, Bytes padded) -> PreparedPlan& {
        TaskChoice choice = mine.plans().candidates_for(task, bytes)[0].choice;
        choice.padded = padded;
        return mine.plans().prepare(choice, bytes);
      };
      PreparedPlan& pairwise = plan_for({Kind::all_to_all, 0, true}, 64 << 10, kPadded);
      Padding padding;
      for (int round = 0; round < 64; ++round) {
        PairwiseBuffers buffers(round % 8, me, job.size());
        padding.habit = {};  // one that pads the next call
        run_padded(job.engine(me), mine, buffers.call, pairwise, padding);
        buffers.expect_right();
      }
      for (const std::vector<Elements>& lengths :
           {std::vector<Elements>{5, 9, 7}, {64}, {1, 0, 1}, {0, 0, 30}})
        for (Where where : {Where::in_place, Where::apart}) {
          UnequalBuffers buffers(Kind::all_gather, lengths, me, job.size(), where);
          run_padded(job.engine(me), mine, buffers.call, plan_for({Kind::all_gather, 0, true}, 256, 256),
                     padding);
          buffers.expect_right();
        }
    });
    for (Rank rank = 0; rank < job.size(); ++rank) ASSERT_EQ(job.engine(rank).failure(), "");
  }
}

TEST(UnequalBlocks, AReduceScatterMayReduceAllOfItOnAllRanks) {
  for (const auto& machine :
       std::vector<std::vector<HostIndex>>{{0, 1}, {0, 0, 1, 2, 2, 2}, {0, 1, 2, 0, 1}}) {
    VirtualJob job(machine);
    auto world = job.create(1, everybody(job.size()));
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      PreparedPlan& plan = mine.plans().plan_for({Kind::reduce_scatter, 0, true}, 64);
      std::vector<std::byte> memory;
      for (const std::vector<Elements>& lengths :
           {std::vector<Elements>{5, 9, 7}, {300}, {1, 0, 1}, {0, 0, 30}, {0, 3}})
        for (Where where : {Where::in_place, Where::apart}) {
          UnequalBuffers buffers(Kind::reduce_scatter, lengths, me, job.size(), where);
          run_reducing_all(job.engine(me), mine, buffers.call, plan, memory);
          buffers.expect_right();
        }
    });
    for (Rank rank = 0; rank < job.size(); ++rank) ASSERT_EQ(job.engine(rank).failure(), "");
  }
}

// Neither is taken for a call that the program makes like that.
TEST(UnequalBlocks, AReduceScatterThatReducesAllIsNoAllReduceOfTheProgram) {
  VirtualJob job({0, 1});
  auto world = job.create(1, everybody(2));
  job.each([&](Rank me) {
    Communicator& mine = *world[static_cast<std::size_t>(me)];
    std::int32_t in[] = {1, 2}, out[2];
    const Call whole{in, out, 2, DType::int32, Op::sum};
    Call blocks{in, out, 1, DType::int32, Op::sum, "MPI_Reduce_scatter", 0, Kind::reduce_scatter};
    std::vector<std::byte> memory;
    if (me == 0) return job.engine(me).run(mine, whole);
    run_reducing_all(job.engine(me), mine, blocks, mine.plans().plan_for(blocks.task(), 4), memory);
    job.engine(0).fail("the other one has found out");
  });
  EXPECT_NE(job.engine(1).failure().find("do not make the same call"), std::string::npos);
  EXPECT_NE(job.engine(1).failure().find("all-reduce of 2 int32, sum, in MPI_Reduce_scatter"),
            std::string::npos)
      << job.engine(1).failure();
}

// What is said of them is what would be said of messages of their own.
TEST(UnequalBlocks, TwoRanksThatDifferInWhatTheyHaveForEachOtherAreTold) {
  constexpr int kAll = 1007;
  struct Wrong {
    Elements had, awaited;
    const char* says;
  };
  for (const Wrong& wrong : {Wrong{1007, 1006, "has 1007 int32 for rank 0, which awaits 1006"},
                             Wrong{1007, 0, "has 1007 int32 for rank 0, which awaits 0"},
                             Wrong{2000, 3, "has more than 1007 int32 for rank 0, which awaits 3"}}) {
    VirtualJob job({0, 0, 1, 1});
    auto world = job.create(1, everybody(job.size()));
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      TaskChoice choice = mine.plans().candidates_for({Kind::all_to_all, 0, true}, 64 << 10)[0].choice;
      choice.padded = kAll * sizeof(std::int32_t);
      PairwiseBuffers buffers(kAll, me, job.size());
      if (me == 0) buffers.taken[3] = wrong.awaited;
      if (me == 3) buffers.given[0] = wrong.had;  // there is as much in the buffer, of other blocks
      Padding padding;
      run_padded(job.engine(me), mine, buffers.call, mine.plans().prepare(choice, 64 << 10), padding);
    });
    EXPECT_NE(job.engine(0).failure().find(wrong.says), std::string::npos) << job.engine(0).failure();
    job.engine(0).fail("the test is over");
  }
}

// All ranks alike, from what they have heard in calls that were padded.
TEST(UnequalBlocks, ShortOnesArePaddedAsLongAsThatSavesMessages) {
  constexpr int kShort = 1007, kLong = 2000, kCalls = 200;
  VirtualJob job({0, 0, 1, 1, 2, 2});
  auto world = job.create(1, everybody(job.size()));
  job.each([&](Rank me) {
    Communicator& mine = *world[static_cast<std::size_t>(me)];
    TaskChoice choice = mine.plans().candidates_for({Kind::all_to_all, 0, true}, 64 << 10)[0].choice;
    choice.padded = 4 * kShort;
    PreparedPlan& plan = mine.plans().prepare(choice, 64 << 10);
    Padding padding;
    auto padded_of = [&](int length) {
      int padded = 0;
      for (int i = 0; i < kCalls; ++i) {
        const PaddingHabit before = padding.habit;
        PairwiseBuffers buffers(length, me, job.size());
        run_padded(job.engine(me), mine, buffers.call, plan, padding);
        buffers.expect_right();
        padded += PaddingHabit(before).pads_next();
      }
      return padded;
    };
    EXPECT_EQ(padded_of(kShort), kCalls);
    const int rare = padded_of(kLong);
    EXPECT_GE(rare, 2) << "it is looked for again";
    EXPECT_LE(rare, 6) << "ever more rarely";
    EXPECT_GE(padded_of(kShort), 1);
  });
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

  explicit StartedPairwise(const std::vector<HostIndex>& machine)
      : job(machine), world(job.create(1, everybody(job.size()))), calls(machine.size()) {}
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
    for (int pattern : {kSome, kMuch}) {
      StartedPairwise all(machine);
      all.start(0, pattern);
      all.start_all_but_the_first(pattern);
      test::until([&] { return all.done(0) == 1; }, [&] { all.progress(1); });
      for (int i = 0; i < 3; ++i) all.start(0, pattern);
      all.progress(200);
      EXPECT_EQ(all.done(0), 1);
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
        PreparedPlan& plan = mine.plans().plan_for({Kind::all_to_all, 0, true}, pairwise_bytes(true, 2));
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
