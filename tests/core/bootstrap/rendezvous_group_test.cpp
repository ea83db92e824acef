#include "core/bootstrap/rendezvous_group.hpp"

#include <gtest/gtest.h>

namespace ddl::rendezvous {
namespace {

RendezvousGroup::Blob blob(int value) { return {static_cast<std::byte>(value)}; }

RendezvousGroup group_of(Rank size, std::vector<Rank> come) {
  RendezvousGroup group;
  for (Rank rank : come) group.join(rank, size);
  return group;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST(RendezvousGroup, ARoundGivesTheBlobsByRankWhateverTheOrderOfTheirComing) {
  for (Rank size : {1, 2, 3, 4, 7}) {
    RendezvousGroup group;
    for (Rank rank = size; rank-- > 0;) group.join(rank, size);
    for (int round = 0; round < 3; ++round) {
      for (Rank i = 0; i < size; ++i) {
        EXPECT_FALSE(group.is_complete());
        Rank rank = (i + round) % size;
        group.bring(rank, blob(10 * round + rank));
      }
      ASSERT_TRUE(group.is_complete());
      std::vector<RendezvousGroup::Blob> blobs = group.take_round();
      ASSERT_EQ(blobs.size(), static_cast<std::size_t>(size));
      for (Rank rank = 0; rank < size; ++rank)
        EXPECT_EQ(blobs[static_cast<std::size_t>(rank)], blob(10 * round + rank));
      EXPECT_FALSE(group.waits());
    }
    for (Rank rank = 0; rank < size; ++rank) {
      EXPECT_FALSE(group.all_left());
      group.leave(rank);
    }
    EXPECT_TRUE(group.all_left());
    EXPECT_EQ(group.failure(), "");
  }
}

TEST(RendezvousGroup, WhoDoesNotFitIsToldWhy) {
  RendezvousGroup group = group_of(3, {1});
  EXPECT_EQ(group.refusal(0, 3), "");
  EXPECT_EQ(group.refusal(2, 3), "");
  EXPECT_TRUE(mentions(group.refusal(1, 3), "a rank 1 already"));
  EXPECT_TRUE(mentions(group.refusal(3, 3), "no rank 3 among 3"));
  EXPECT_TRUE(mentions(group.refusal(-1, 3), "no rank -1"));
  EXPECT_TRUE(mentions(group.refusal(0, 4), "there are 4 ranks"));
  EXPECT_TRUE(mentions(group.refusal(0, 0), "0 ranks"));
  EXPECT_NE(RendezvousGroup().refusal(0, 1 << 30), "");
  EXPECT_EQ(group.failure(), "") << "a refusal disturbs nobody";
}

TEST(RendezvousGroup, TheMissingAreNamed) {
  RendezvousGroup group = group_of(4, {0, 2});
  EXPECT_TRUE(group.waits());
  group.give_up(60);
  EXPECT_TRUE(mentions(group.failure(), "ranks 1, 3 of 4 did not come within 60 s")) << group.failure();
  EXPECT_FALSE(group.waits());
  EXPECT_EQ(group.refusal(1, 4), group.failure()) << "latecomers learn why";

  RendezvousGroup round = group_of(3, {0, 1, 2});
  EXPECT_FALSE(round.waits()) << "between rounds a rank may take its time";
  round.bring(0, blob(1));
  round.bring(2, blob(1));
  EXPECT_TRUE(round.waits());
  round.give_up(0.5);
  EXPECT_TRUE(mentions(round.failure(), "rank 1 of 3 did not come to round 0 within 0.5 s"))
      << round.failure();
}

TEST(RendezvousGroup, AThousandMissingRanksMakeAShortLine) {
  RendezvousGroup group = group_of(1000, {0});
  group.give_up(60);
  EXPECT_TRUE(mentions(group.failure(), "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 991 more of 1000"))
      << group.failure();
}

TEST(RendezvousGroup, ALostRankFailsTheOthersAndTheFirstCauseStays) {
  RendezvousGroup group = group_of(3, {0, 1, 2});
  group.bring(0, blob(1));
  group.lose(1);
  EXPECT_TRUE(mentions(group.failure(), "rank 1 is gone")) << group.failure();
  group.lose(2);
  EXPECT_TRUE(mentions(group.failure(), "rank 1 is gone")) << group.failure();
  group.bring(2, blob(1));
  EXPECT_FALSE(group.is_complete());
}

TEST(RendezvousGroup, GoodbyesAreNoFailureUnlessSomebodyWaits) {
  RendezvousGroup group = group_of(2, {0, 1});
  group.leave(0);
  EXPECT_EQ(group.failure(), "");
  group.bring(1, blob(1));
  EXPECT_TRUE(mentions(group.failure(), "others have left")) << group.failure();

  RendezvousGroup round = group_of(2, {0, 1});
  round.bring(1, blob(1));
  round.leave(0);
  EXPECT_TRUE(mentions(round.failure(), "rank 0 left")) << round.failure();

  RendezvousGroup gathering = group_of(2, {0});
  gathering.leave(0);
  EXPECT_TRUE(mentions(gathering.failure(), "rank 0 left")) << gathering.failure();
}

TEST(RendezvousGroup, ClosingFailsOnlyWhoHasNotLeft) {
  RendezvousGroup done = group_of(1, {0});
  done.leave(0);
  done.close();
  EXPECT_EQ(done.failure(), "");
  RendezvousGroup group = group_of(1, {0});
  group.close();
  EXPECT_NE(group.failure(), "");
}

}  // namespace ddl::rendezvous
