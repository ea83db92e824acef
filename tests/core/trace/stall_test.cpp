#include "core/trace/stall.hpp"

#include <gtest/gtest.h>

#include "tests/support/seconds.hpp"

namespace ddl {
namespace {

using State = CallStatus::State;
using Presence = Peer::Presence;

constexpr CommId kWorld = 7, kOther = 9;
const CallName kAllReduce("MPI_Allreduce"), kBroadcast("MPI_Bcast"), kFinalize("MPI_Finalize");

// Rank 2 waits in the twelfth call on a communicator.
Stall stalled() { return {2, kWorld, 12, kAllReduce, "MPI_Allreduce #12", 10 * kSecond, true, false}; }

Peer in_it(Rank rank) {
  return {rank, Presence::answers, {State::inside, kAllReduce, kWorld, 12, 10 * kSecond}, 0, false};
}

Peer does(Rank rank, State state, const CallName& name, CommId comm, std::uint64_t number) {
  return {rank, Presence::answers, {state, name, comm, number, 3 * kSecond}, 0, false};
}

std::string said(const std::vector<Peer>& peers) { return line_of(stalled(), peers); }

}  // namespace

TEST(StallLine, NamesOnlyThoseWhoDoNotComeAndWhatTheyDo) {
  EXPECT_EQ(said({in_it(0), does(1, State::inside, kFinalize, 0, 1), in_it(3)}),
            "waiting for 10 s in MPI_Allreduce #12: rank 1 is in MPI_Finalize");
  EXPECT_EQ(said({does(0, State::inside, kBroadcast, kWorld, 12), in_it(1)}),
            "waiting for 10 s in MPI_Allreduce #12: rank 0 is in MPI_Bcast #12 on the same communicator");
  EXPECT_EQ(said({does(0, State::inside, kAllReduce, kOther, 12), in_it(1)}),
            "waiting for 10 s in MPI_Allreduce #12: rank 0 is in MPI_Allreduce #12 on another communicator");
  EXPECT_EQ(
      said({does(0, State::ended, kAllReduce, kWorld, 11)}),
      "waiting for 10 s in MPI_Allreduce #12: rank 0 is outside the collectives; the last, MPI_Allreduce "
      "#11 on the same communicator, ended 3 s ago");
}

TEST(StallLine, PutsThoseTogetherWhoDoTheSame) {
  std::vector<Peer> peers = {does(0, State::inside, kFinalize, 0, 1),
                             does(1, State::inside, kFinalize, 0, 1)};
  peers.push_back({3, Presence::stopped});
  peers.push_back({4, Presence::silent});
  peers.push_back({5, Presence::silent});
  peers.push_back({6, Presence::gone});
  EXPECT_EQ(said(peers),
            "waiting for 10 s in MPI_Allreduce #12: ranks 0, 1 are in MPI_Finalize; rank 3 is stopped (by a "
            "signal or a debugger); ranks 4, 5 do not answer; rank 6 is gone");
}

TEST(StallLine, NamesNotMoreRanksThanFitALine) {
  std::vector<Peer> peers;
  for (Rank rank = 3; rank < 1000; ++rank) peers.push_back({rank, Presence::silent});
  EXPECT_EQ(
      said(peers),
      "waiting for 10 s in MPI_Allreduce #12: ranks 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, "
      "18 and 981 more do not answer");
}

TEST(StallLine, AStoppedRankIsNamedThoughItIsInTheCall) {
  Peer stopped = in_it(1);
  stopped.presence = Presence::stopped;
  EXPECT_EQ(said({in_it(0), stopped}),
            "waiting for 10 s in MPI_Allreduce #12: rank 1 is stopped (by a signal or a debugger)");
}

TEST(StallLine, WhereAllHaveComeThoseAreNamedWhoseMessagesAreMissing) {
  Peer awaited = in_it(1);
  awaited.is_awaited = true;
  EXPECT_EQ(said({in_it(0), awaited}), "waiting for 10 s in MPI_Allreduce #12: rank 1 is in it, too");
}

TEST(StallLine, TheSameCallOfTheOriginalLibraryIsAnother) {
  Peer elsewhere = in_it(0);
  elsewhere.call.in_original = true;
  EXPECT_EQ(said({elsewhere, in_it(1)}),
            "waiting for 10 s in MPI_Allreduce #12: rank 0 is in MPI_Allreduce #12 on the same communicator, "
            "in the original library");
  EXPECT_EQ(speaker_of(stalled(), {elsewhere}), Speaker::me) << "it waits for other messages";
  Stall original = stalled();
  original.in_original = true;
  EXPECT_EQ(line_of(original, {elsewhere, in_it(1)}),
            "waiting for 10 s in MPI_Allreduce #12: rank 1 is in MPI_Allreduce #12 on the same communicator, "
            "on the engine");
}

TEST(StallLine, WhoWaitsForRanksThatWaitThemselvesDoesNotKnowWhy) {
  Peer awaited = in_it(1);
  awaited.is_awaited = true;
  EXPECT_FALSE(is_explained(stalled(), {in_it(0), awaited}));
  EXPECT_TRUE(is_explained(stalled(), {awaited, does(3, State::inside, kFinalize, 0, 1)}));
}

TEST(StallLine, OneThatHasLeftARootedCallIsNotBlamed) {
  Stall reduce = stalled();
  reduce.needs_all = false;
  Peer awaited = does(3, State::inside, kFinalize, 0, 1);
  awaited.is_awaited = true;
  EXPECT_EQ(line_of(reduce, {does(0, State::ended, kAllReduce, kOther, 2), awaited}),
            "waiting for 10 s in MPI_Allreduce #12: rank 3 is in MPI_Finalize");
}

TEST(StallLine, WithoutNumbersOnlyWhomTheEngineWaitsForIsNamed) {
  Stall stall = stalled();
  stall.number = 0;
  Peer awaited{1, Presence::answers, {}, 0, true};
  EXPECT_EQ(line_of(stall, {Peer{0}, awaited}),
            "waiting for 10 s in MPI_Allreduce #12: rank 1 does not come");
}

TEST(StallLine, OfACallThatGoesOnWhoHasBegunItIsNotNamed) {
  Stall stall = stalled();
  stall.goes_on = true;
  EXPECT_EQ(
      line_of(stall,
              {does(0, State::ended, kAllReduce, kWorld, 12), does(1, State::inside, kBroadcast, kWorld, 13),
               does(3, State::ended, kAllReduce, kWorld, 11), does(4, State::ended, kAllReduce, kOther, 2)}),
      "waiting for 10 s in MPI_Allreduce #12: rank 3 is outside the collectives; the last, MPI_Allreduce #11 "
      "on the same communicator, ended 3 s ago");
}

TEST(StallSpeaker, IsTheLowestRankInTheCall) {
  EXPECT_EQ(speaker_of(stalled(), {in_it(0), in_it(1)}), Speaker::another);
  EXPECT_EQ(speaker_of(stalled(), {in_it(3), in_it(4)}), Speaker::me);
  EXPECT_EQ(speaker_of(stalled(), {does(0, State::ended, kAllReduce, kWorld, 11), in_it(3)}), Speaker::me);
}

TEST(StallSpeaker, IsNotOneThatHasJustComeOrIsStopped) {
  Peer late = in_it(0);
  late.call.age = kSecond;
  EXPECT_EQ(speaker_of(stalled(), {late}), Speaker::me);
  Peer stopped = in_it(0);
  stopped.presence = Presence::stopped;
  EXPECT_EQ(speaker_of(stalled(), {stopped}), Speaker::me);
}

// Of a gather: the others wait for few, or for nobody, and do not know why.
TEST(StallSpeaker, IsWhoWaitsForAllWhereTheOthersDoNot) {
  Stall root = stalled();
  root.sink = root.me;
  EXPECT_EQ(speaker_of(root, {in_it(0), in_it(3)}), Speaker::me);
  Stall other = stalled();
  other.sink = 3;
  EXPECT_EQ(speaker_of(other, {in_it(3)}), Speaker::another);
  EXPECT_EQ(speaker_of(other, {does(3, State::inside, kBroadcast, kWorld, 12)}), Speaker::me);
}

TEST(StallSpeaker, KnowsWhatHasBeenSaidOfThisCallAfterSoLong) {
  Peer other = in_it(5);
  other.said = SaidOfStall::word(kWorld, 12, 10 * kSecond);
  EXPECT_EQ(speaker_of(stalled(), {other}), Speaker::has_spoken);
  Stall longer = stalled();
  longer.waited = 20 * kSecond;
  EXPECT_EQ(speaker_of(longer, {other}), Speaker::me);
  Stall next = stalled();
  next.number = 13;
  Peer in_next = other;
  in_next.call.number = 13;
  EXPECT_EQ(speaker_of(next, {in_next}), Speaker::me);
}

}  // namespace ddl
