#include <gtest/gtest.h>

#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::until;
using test::VirtualJob;

const CallName kFinalizing("MPI_Finalize"), kReducing("MPI_Allreduce");

// What rank `asked` says of `about` to rank 0, while nobody makes a call.
Peer answer_of(VirtualJob& job, Rank asked, Rank about, CommId comm, std::uint64_t number) {
  job.engine(0).ask(asked, about, comm, number);
  std::vector<Peer> answers;
  until([&] { return !answers.empty(); },
        [&] {
          for (Rank rank = 0; rank < job.size(); ++rank) job.engine(rank).look_after();
          answers = job.engine(0).take_answers();
        });
  EXPECT_EQ(answers.size(), 1u);
  return answers.empty() ? Peer{-1} : answers[0];
}

Call sum_of(int& in, int& out) {
  return {&in, &out, 1, DType::int32, Op::sum, "MPI_Allreduce", now(), Kind::all_reduce, 0, 0, 0, 0, {}, 12};
}

}  // namespace

TEST(EngineStatus, ARankOfAnotherHostTellsWhatItDoes) {
  VirtualJob job({0, 1});
  job.activity(1).records[0].begin(kFinalizing, 0, 1);
  job.activity(1).said = 77;
  const Peer answer = answer_of(job, 1, 1, 5, 9);
  EXPECT_EQ(answer.rank, 1);
  EXPECT_EQ(answer.presence, Peer::Presence::answers);
  EXPECT_TRUE(answer.call.is_in(kFinalizing, 0, 1));
  EXPECT_EQ(answer.said, 77u);
}

TEST(EngineStatus, TheThreadInTheCallThatIsAskedForIsTold) {
  VirtualJob job({0, 1});
  job.activity(1).records[0].begin(kFinalizing, 0, 1);
  job.activity(1).records[1].begin(kReducing, 5, 9);
  EXPECT_TRUE(answer_of(job, 1, 1, 5, 9).call.is_in(kReducing, 5, 9));
}

TEST(EngineStatus, ARankTellsOfItsNeighboursToo) {
  VirtualJob job({0, 1, 1});
  job.activity(1).records[0].begin(kReducing, 5, 9);
  const Peer answer = answer_of(job, 2, 1, 5, 9);
  EXPECT_EQ(answer.rank, 1);
  EXPECT_TRUE(answer.call.is_in(kReducing, 5, 9));
}

TEST(EngineStatus, RanksOfAHostAreLookedAt) {
  VirtualJob job({0, 0, 1});
  job.activity(1).records[0].begin(kReducing, 5, 9);
  const std::optional<Peer> peer = job.engine(0).look_at(1, 5, 9);
  ASSERT_TRUE(peer);
  EXPECT_TRUE(peer->call.is_in(kReducing, 5, 9));
  EXPECT_FALSE(job.engine(0).look_at(2, 5, 9));
}

TEST(EngineStatus, ACallThatTakesLongTellsWhomItWaitsFor) {
  VirtualJob job({0, 0, 1});
  const auto communicators = job.create(5, {0, 1, 2});
  int in = 1, out[3] = {};
  std::vector<std::unique_ptr<Completion>> done;
  for (Rank rank : {0, 1})
    done.push_back(
        test::start(job.engine(rank), *communicators[static_cast<std::size_t>(rank)], sum_of(in, out[rank])));
  // A program that does not look at it does not wait for it.
  EXPECT_TRUE(job.engine(0).calls_longer_than(0).empty());
  for (int i = 0; i < 100; ++i)
    for (Rank rank : {0, 1}) job.engine(rank).test(*done[static_cast<std::size_t>(rank)]);
  EXPECT_TRUE(job.engine(0).calls_longer_than(3'600'000'000'000).empty());
  for (int i = 0; i < 100; ++i) job.engine(0).test(*done[0]);
  const std::vector<LongCall> calls = job.engine(0).calls_longer_than(0);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].comm, 5u);
  EXPECT_EQ(calls[0].number, 12u);
  EXPECT_EQ(calls[0].name, kReducing);
  EXPECT_EQ(calls[0].members, (std::vector<Rank>{0, 1, 2}));
  EXPECT_TRUE(calls[0].needs_all && calls[0].goes_on);
  EXPECT_FALSE(calls[0].waits_for.empty());
  done.push_back(test::start(job.engine(2), *communicators[2], sum_of(in, out[2])));
  until([&] { return done[0]->done() && done[1]->done() && done[2]->done(); },
        [&] {
          for (Rank rank : {0, 1, 2}) job.engine(rank).test(*done[static_cast<std::size_t>(rank)]);
        });
  EXPECT_EQ(out[0], 3);
}

TEST(EngineStatus, OfAReductionToOneRankAllKnowThatItWaitsForAll) {
  VirtualJob job({0, 0, 1});
  const auto communicators = job.create(5, {0, 1, 2});
  int in = 1, out = 0;
  Call call = sum_of(in, out);
  call.kind = Kind::reduce;
  call.root = 1;
  const auto done = test::start(job.engine(1), *communicators[1], call);
  for (int i = 0; i < 100; ++i) job.engine(1).test(*done);
  const std::vector<LongCall> calls = job.engine(1).calls_longer_than(0);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].sink, 1);
  EXPECT_EQ(calls[0].source, -1);
  EXPECT_TRUE(calls[0].needs_all);
  job.engine(1).fail("it ends");
}

TEST(EngineStatus, WhoWaitsForARankThatEndedBecauseOfAnotherBlamesThat) {
  for (const bool is_first : {true, false}) {
    VirtualJob job({0, 0, 0});
    const auto communicators = job.create(5, {0, 1, 2});
    int in = 1, out = 0;
    const auto done = test::start(job.engine(0), *communicators[0], sum_of(in, out));
    job.engine(0).fail_without(7, 300'000'000);
    EXPECT_EQ(job.engine(0).failure(), "");
    if (!is_first) job.activity(1).gave_up = 2 + 1;
    job.engine(0).fail_without(1, 300'000'000);
    EXPECT_EQ(job.engine(0).failure(),
              is_first ? "rank 1 of the job is gone (its process has ended, waited for 0.3 s)"
                       : "rank 2 of the job is gone (rank 1 has ended because of it, waited for 0.3 s)");
  }
}

TEST(EngineStatus, WhatARankHasSentBeforeItEndedIsReceivedFirst) {
  VirtualJob job({0, 0});
  const auto communicators = job.create(5, {0, 1});
  int in = 1, out[2] = {};
  const auto first = test::start(job.engine(0), *communicators[0], sum_of(in, out[0]));
  const auto second = test::start(job.engine(1), *communicators[1], sum_of(in, out[1]));
  job.engine(1).test(*second);
  // Nobody has moved rank 0 since, unless its helper thread was that quick.
  job.engine(0).fail_without(1, 300'000'000);
  EXPECT_EQ(job.engine(0).failure(), "");
  EXPECT_TRUE(first->done());
  EXPECT_EQ(out[0], 2);
}

}  // namespace ddl
