#include "core/native/meeting_card.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {
namespace {

using Way = CompanionWay;
using Ways = std::vector<CompanionWay>;

MeetingCard card(const std::string& device, const std::string& host) {
  return {.has_original = true, .can_split = true, .device = device, .host = host, .options = "-mode b"};
}

MeetingOutcome outcome_of(const std::vector<MeetingCard>& cards) {
  std::vector<std::vector<std::byte>> packed;
  for (const MeetingCard& one : cards) packed.push_back(pack(one));
  return conclude(packed);
}

std::vector<MeetingCard> four_ranks_on_two_hosts() {
  return {card("\xff\x01", "a"), card("\xff\x02", "a"), card("\xff\x03", "b"), card("\xff\x04", "b")};
}

}  // namespace

TEST(MeetingCard, TravelsAsItIs) {
  MeetingCard sent = card(std::string("\0\xfe", 2), "a\nb");
  sent.fake_hosts = {2, 1};
  sent.segment = 65536;
  sent.by_sockets = true;
  MeetingCard got = unpack_meeting_card(pack(sent)).value();
  EXPECT_TRUE(got.has_original && got.can_split && got.by_sockets);
  EXPECT_EQ(got.device, sent.device);
  EXPECT_EQ(got.host, sent.host);
  EXPECT_EQ(got.options, sent.options);
  EXPECT_EQ(got.fake_hosts, sent.fake_hosts);
  EXPECT_EQ(got.segment, sent.segment);
}

TEST(MeetingCard, WhatIsNoCardOfThisVersionIsRefusedByTheRanksName) {
  std::vector<std::byte> good = pack(card("1", "a")), bad(3, std::byte{0xff});
  EXPECT_FALSE(unpack_meeting_card(bad));
  EXPECT_FALSE(unpack_meeting_card({}));
  MeetingCard newer = card("2", "a");
  newer.version = kWireVersion + 1;
  for (const auto& other : {bad, pack(newer)}) try {
      conclude({good, other});
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1 runs another version"), std::string::npos);
    }
}

TEST(Meeting, TheCommunicatorIsOursWhereNcclWouldRefuse) {
  auto cards = four_ranks_on_two_hosts();
  EXPECT_EQ(outcome_of(cards).why_ours, "");
  cards[3].device = cards[1].device;
  EXPECT_EQ(outcome_of(cards).why_ours, "ranks 1 and 3 share a GPU, which NCCL refuses");
  cards[2].has_original = false;
  EXPECT_EQ(outcome_of(cards).why_ours, "rank 2 has no NCCL library");
}

TEST(Meeting, PlansComeWithTheModesPAndBAndWhereEveryRankCanSplit) {
  auto cards = four_ranks_on_two_hosts();
  MeetingOutcome outcome = outcome_of(cards);
  ASSERT_TRUE(outcome.grid);
  EXPECT_EQ(outcome.why_flat, "");
  EXPECT_EQ(outcome.grid->fanout(0), 2);
  EXPECT_EQ(outcome.ways, Ways{Way::nccl});
  cards[0].options = "";
  EXPECT_TRUE(outcome_of(cards).grid);
  EXPECT_EQ(outcome_of(cards).ways, (Ways{Way::whole, Way::nccl}));
  cards[2].can_split = false;
  EXPECT_EQ(outcome_of(cards).why_flat, "rank 2 has a nonblocking communicator, or an NCCL before 2.18");
  cards[0].options = "-mode n";
  EXPECT_EQ(outcome_of(cards).why_flat, "plans come with the modes p and b, the mode is n");
  EXPECT_FALSE(outcome_of(cards).grid);
}

TEST(Meeting, OurRailsAreAWayWhereTheOriginalHasSocketsOnEveryRank) {
  auto cards = four_ranks_on_two_hosts();
  for (MeetingCard& one : cards) one.by_sockets = true;
  EXPECT_EQ(outcome_of(cards).ways, (Ways{Way::nccl, Way::rails}));
  cards[0].options = "";
  EXPECT_EQ(outcome_of(cards).ways, (Ways{Way::whole, Way::nccl, Way::rails}));
  cards[3].by_sockets = false;
  EXPECT_EQ(outcome_of(cards).ways, (Ways{Way::whole, Way::nccl}));
  cards[3].by_sockets = true;
  cards[0].options = "-mode b:2x2";
  EXPECT_EQ(outcome_of(cards).ways, (Ways{Way::nccl, Way::rails}));
  cards[0].options = "-mode b:1x4";
  EXPECT_EQ(outcome_of(cards).why_flat, "one dimension joins all ranks");
}

TEST(Meeting, WithARankPerHostTheRailsAreAlone) {
  std::vector<MeetingCard> cards = {card("\xff\x01", "a"), card("\xff\x02", "b")};
  EXPECT_EQ(outcome_of(cards).why_flat, "every host has one rank");
  for (MeetingCard& one : cards) one.by_sockets = true;
  EXPECT_EQ(outcome_of(cards).ways, (Ways{Way::whole, Way::rails}));
  cards[0].deterministic = true;
  EXPECT_EQ(outcome_of(cards).why_flat, "every host has one rank") << "which way would be measured";
}

TEST(Meeting, PartsMeetWhereTheyMayHavePlansThoughTheWholeHasNone) {
  auto cards = four_ranks_on_two_hosts();
  EXPECT_TRUE(outcome_of(cards).splits_meet());
  EXPECT_EQ(outcome_of(cards).host_of_rank, (std::vector<HostIndex>{0, 0, 1, 1}));
  cards.push_back(card("\xff\x05", "b"));
  EXPECT_FALSE(outcome_of(cards).grid);
  EXPECT_TRUE(outcome_of(cards).splits_meet());
  cards[1].can_split = false;
  EXPECT_FALSE(outcome_of(cards).splits_meet());
  cards[1] = card("\xff\x02", "a");
  cards[0].options = "-mode n";
  EXPECT_FALSE(outcome_of(cards).splits_meet());
  cards[0].options = "";
  for (MeetingCard& one : cards) one.host = "a";
  EXPECT_FALSE(outcome_of(cards).splits_meet());
  cards[4] = card(cards[3].device, "b");
  EXPECT_FALSE(outcome_of(cards).splits_meet()) << "they share a GPU";
}

TEST(Meeting, WhatIsDeterministicIsNotMeasured) {
  auto cards = four_ranks_on_two_hosts();
  cards[0].deterministic = true;
  EXPECT_TRUE(outcome_of(cards).grid) << "mode b measures nothing";
  cards[0].options = "";
  EXPECT_EQ(outcome_of(cards).why_flat,
            "with DDL_DETERMINISTIC=1 nothing is measured, and plans come with -mode b");
}

TEST(Meeting, OfOptionsAndHostsThatAreToldRankZerosCount) {
  auto cards = four_ranks_on_two_hosts();
  cards[1].options = "-mode n";
  cards[1].fake_hosts = {1, 3};
  EXPECT_TRUE(outcome_of(cards).grid);
  cards[0].fake_hosts = {4};
  EXPECT_EQ(outcome_of(cards).why_flat, "all ranks are on one host");
  cards[0].fake_hosts = {3, 3};  // of another number of ranks
  EXPECT_TRUE(outcome_of(cards).grid);
  cards[0].options = "-mode b:2x2";
  EXPECT_TRUE(outcome_of(cards).grid);
  cards[0].options = "-mode x";
  EXPECT_NE(outcome_of(cards).trouble, "");
  EXPECT_EQ(outcome_of(cards).ways, (Ways{Way::whole, Way::nccl})) << "the default";
}

}  // namespace ddl
