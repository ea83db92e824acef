// Calls that are made of others: padded ones, and reduce-scatters of which all ranks reduce all; ranks as
// threads.
#include <gtest/gtest.h>

#include "core/collective/engine.hpp"
#include "core/collective/padded_call.hpp"
#include "core/collective/reduce_all.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/unequal_buffers.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {

using test::everybody;
using test::PairwiseBuffers;
using test::UnequalBuffers;
using test::VirtualJob;
using test::Where;

// Short and long blocks in one call, short ones alone, and none.
TEST(CallParts, ShortOnesThatArePaddedArriveWithTheOthers) {
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
      for (int round = 0; round < 64 / test::thinned(8); ++round) {
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

TEST(CallParts, AReduceScatterMayReduceAllOfItOnAllRanks) {
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
TEST(CallParts, AReduceScatterThatReducesAllIsNoAllReduceOfTheProgram) {
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
TEST(CallParts, TwoRanksThatDifferInWhatTheyHaveForEachOtherAreTold) {
  constexpr int kAll = 60;
  struct Wrong {
    Elements had, awaited;
    const char* says;
  };
  for (const Wrong& wrong : {Wrong{60, 59, "has 60 int32 for rank 0, which awaits 59"},
                             Wrong{60, 0, "has 60 int32 for rank 0, which awaits 0"},
                             Wrong{100, 3, "has more than 64 int32 for rank 0, which awaits 3"}}) {
    VirtualJob job({0, 0, 1, 1});
    auto world = job.create(1, everybody(job.size()));
    job.each([&](Rank me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      TaskChoice choice = mine.plans().candidates_for({Kind::all_to_all, 0, true}, 64 << 10)[0].choice;
      choice.padded = kLeastPadded;
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
TEST(CallParts, ShortOnesArePaddedAsLongAsThatSavesMessages) {
  constexpr int kShort = 60, kLonger = 500, kLong = 2000, kCalls = 200;
  VirtualJob job({0, 0, 1, 1, 2, 2});
  auto world = job.create(1, everybody(job.size()));
  job.each([&](Rank me) {
    Communicator& mine = *world[static_cast<std::size_t>(me)];
    TaskChoice choice = mine.plans().candidates_for({Kind::all_to_all, 0, true}, 64 << 10)[0].choice;
    choice.padded = 2048;
    PreparedPlan& plan = mine.plans().prepare(choice, 64 << 10);
    Padding padding;
    auto padded_of = [&](int length, int other, Bytes to) {
      int padded = 0;
      for (int i = 0; i < kCalls; ++i) {
        PaddingHabit before = padding.habit;
        PairwiseBuffers buffers(i % 2 ? other : length, me, job.size());
        run_padded(job.engine(me), mine, buffers.call, plan, padding);
        buffers.expect_right();
        padded += before.next() == to;
      }
      return padded;
    };
    EXPECT_EQ(padded_of(kShort, kShort, 256), kCalls);
    EXPECT_GE(padded_of(kLonger, kLonger, 2048), kCalls - 2);
    EXPECT_GE(padded_of(kLonger, kShort, 256), kCalls - 2) << "in turns";
    const int rare = padded_of(kLong, kLong, 256);
    EXPECT_GE(rare, 2) << "it is looked for again";
    EXPECT_LE(rare, 6) << "ever more rarely";
    EXPECT_GE(padded_of(kShort, kShort, 256), 1);
  });
}

TEST(PaddingHabit, PadsToTheLengthThatFillsMostOfIt) {
  auto next = [](std::initializer_list<BlocksBetweenHosts> calls) {
    PaddingHabit habit;
    for (const BlocksBetweenHosts& seen : calls) habit.learn(seen, 4096);
    return habit.next();
  };
  const BlocksBetweenHosts tiny{10, 10, 4, 40}, kib{10, 0, 1000, 10000}, uneven{10, 8, 3000, 4000},
      one_long{10, 8, 5000, 6000}, few{10, 0, 3000, 3000}, none{10};
  EXPECT_EQ(next({}), 256U);
  EXPECT_EQ(next({tiny}), 256U);
  EXPECT_EQ(next({kib}), 1024U);
  EXPECT_EQ(next({kib, kib}), 1024U);
  EXPECT_EQ(next({kib, tiny}), 256U);
  EXPECT_EQ(next({kib, tiny, kib}), 256U) << "in turns";
  EXPECT_EQ(next({kib, tiny, kib, kib}), 1024U);
  EXPECT_EQ(next({uneven}), 256U) << "most of it would be padding";
  EXPECT_EQ(next({one_long}), 256U);
  EXPECT_EQ(next({few}), 0U);
  EXPECT_EQ(next({none}), 0U);
}

}  // namespace ddl
