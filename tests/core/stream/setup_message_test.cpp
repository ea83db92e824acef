#include "core/stream/setup_message.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {
namespace {

using Way = HierarchyRoute;
using Ways = std::vector<HierarchyRoute>;

SetupMessage message(const std::string& device, const std::string& host) {
  return {.has_original = true, .can_split = true, .device = device, .host = host, .options = "-mode b"};
}

SetupOutcome outcome_of(const std::vector<SetupMessage>& messages) {
  std::vector<std::vector<std::byte>> packed;
  for (const SetupMessage& one : messages) packed.push_back(pack(one));
  return conclude(packed);
}

std::vector<SetupMessage> four_ranks_on_two_hosts() {
  return {message("\xff\x01", "a"), message("\xff\x02", "a"), message("\xff\x03", "b"),
          message("\xff\x04", "b")};
}

}  // namespace

TEST(SetupMessage, TravelsAsItIs) {
  SetupMessage sent = message(std::string("\0\xfe", 2), "a\nb");
  sent.fake_hosts = {2, 1};
  sent.segment = 65536;
  sent.by_sockets = true;
  SetupMessage got = unpack_setup_message(pack(sent)).value();
  EXPECT_TRUE(got.has_original && got.can_split && got.by_sockets);
  EXPECT_EQ(got.device, sent.device);
  EXPECT_EQ(got.host, sent.host);
  EXPECT_EQ(got.options, sent.options);
  EXPECT_EQ(got.fake_hosts, sent.fake_hosts);
  EXPECT_EQ(got.segment, sent.segment);
}

TEST(SetupMessage, WhatIsNoCardOfThisVersionIsRefusedByTheRanksName) {
  std::vector<std::byte> good = pack(message("1", "a")), bad(3, std::byte{0xff});
  EXPECT_FALSE(unpack_setup_message(bad));
  EXPECT_FALSE(unpack_setup_message({}));
  SetupMessage newer = message("2", "a");
  newer.version = kWireVersion + 1;
  for (const auto& other : {bad, pack(newer)}) try {
      conclude({good, other});
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1 runs another version"), std::string::npos);
    }
}

TEST(CommunicatorSetup, TheCommunicatorIsOursWhereNcclWouldRefuse) {
  auto messages = four_ranks_on_two_hosts();
  EXPECT_EQ(outcome_of(messages).why_ours, "");
  messages[3].device = messages[1].device;
  EXPECT_EQ(outcome_of(messages).why_ours, "ranks 1 and 3 share a GPU, which NCCL refuses");
  messages[2].has_original = false;
  EXPECT_EQ(outcome_of(messages).why_ours, "rank 2 has no NCCL library");
}

TEST(CommunicatorSetup, PlansComeWithTheModesPAndBAndWhereEveryRankCanSplit) {
  auto messages = four_ranks_on_two_hosts();
  SetupOutcome outcome = outcome_of(messages);
  ASSERT_TRUE(outcome.grid);
  EXPECT_EQ(outcome.why_flat, "");
  EXPECT_EQ(outcome.grid->fanout(0), 2);
  EXPECT_EQ(outcome.routes, Ways{Way::nccl});
  messages[0].options = "";
  EXPECT_TRUE(outcome_of(messages).grid);
  EXPECT_EQ(outcome_of(messages).routes, (Ways{Way::whole, Way::nccl}));
  messages[2].can_split = false;
  EXPECT_EQ(outcome_of(messages).why_flat, "rank 2 has a nonblocking communicator, or an NCCL before 2.18");
  messages[0].options = "-mode n";
  EXPECT_EQ(outcome_of(messages).why_flat, "plans come with the modes p and b, the mode is n");
  EXPECT_FALSE(outcome_of(messages).grid);
}

TEST(CommunicatorSetup, OurRailsAreAWayWhereTheOriginalHasSocketsOnEveryRank) {
  auto messages = four_ranks_on_two_hosts();
  for (SetupMessage& one : messages) one.by_sockets = true;
  EXPECT_EQ(outcome_of(messages).routes, (Ways{Way::nccl, Way::rails}));
  messages[0].options = "";
  EXPECT_EQ(outcome_of(messages).routes, (Ways{Way::whole, Way::nccl, Way::rails}));
  messages[3].by_sockets = false;
  EXPECT_EQ(outcome_of(messages).routes, (Ways{Way::whole, Way::nccl}));
  messages[3].by_sockets = true;
  messages[0].options = "-mode b:2x2";
  EXPECT_EQ(outcome_of(messages).routes, (Ways{Way::nccl, Way::rails}));
  messages[0].options = "-mode b:1x4";
  EXPECT_EQ(outcome_of(messages).why_flat, "one dimension joins all ranks");
}

TEST(CommunicatorSetup, WithARankPerHostTheRailsAreAlone) {
  std::vector<SetupMessage> messages = {message("\xff\x01", "a"), message("\xff\x02", "b")};
  EXPECT_EQ(outcome_of(messages).why_flat, "every host has one rank");
  for (SetupMessage& one : messages) one.by_sockets = true;
  EXPECT_EQ(outcome_of(messages).routes, (Ways{Way::whole, Way::rails}));
  messages[0].deterministic = true;
  EXPECT_EQ(outcome_of(messages).why_flat, "every host has one rank") << "which way would be measured";
}

TEST(CommunicatorSetup, PartsMeetWhereTheyMayHavePlansThoughTheWholeHasNone) {
  auto messages = four_ranks_on_two_hosts();
  EXPECT_TRUE(outcome_of(messages).splits_may_have_plans());
  EXPECT_EQ(outcome_of(messages).host_of_rank, (std::vector<HostIndex>{0, 0, 1, 1}));
  messages.push_back(message("\xff\x05", "b"));
  EXPECT_FALSE(outcome_of(messages).grid);
  EXPECT_TRUE(outcome_of(messages).splits_may_have_plans());
  messages[1].can_split = false;
  EXPECT_FALSE(outcome_of(messages).splits_may_have_plans());
  messages[1] = message("\xff\x02", "a");
  messages[0].options = "-mode n";
  EXPECT_FALSE(outcome_of(messages).splits_may_have_plans());
  messages[0].options = "";
  for (SetupMessage& one : messages) one.host = "a";
  EXPECT_FALSE(outcome_of(messages).splits_may_have_plans());
  messages[4] = message(messages[3].device, "b");
  EXPECT_FALSE(outcome_of(messages).splits_may_have_plans()) << "they share a GPU";
}

TEST(CommunicatorSetup, WhatIsDeterministicIsNotMeasured) {
  auto messages = four_ranks_on_two_hosts();
  messages[0].deterministic = true;
  EXPECT_TRUE(outcome_of(messages).grid) << "mode b measures nothing";
  messages[0].options = "";
  EXPECT_EQ(outcome_of(messages).why_flat,
            "with DDL_DETERMINISTIC=1 nothing is measured, and plans come with -mode b");
}

TEST(CommunicatorSetup, OfOptionsAndHostsThatAreToldRankZerosCount) {
  auto messages = four_ranks_on_two_hosts();
  messages[1].options = "-mode n";
  messages[1].fake_hosts = {1, 3};
  EXPECT_TRUE(outcome_of(messages).grid);
  messages[0].fake_hosts = {4};
  EXPECT_EQ(outcome_of(messages).why_flat, "all ranks are on one host");
  messages[0].fake_hosts = {3, 3};  // of another number of ranks
  EXPECT_TRUE(outcome_of(messages).grid);
  messages[0].options = "-mode b:2x2";
  EXPECT_TRUE(outcome_of(messages).grid);
  messages[0].options = "-mode x";
  EXPECT_NE(outcome_of(messages).trouble, "");
  EXPECT_EQ(outcome_of(messages).routes, (Ways{Way::whole, Way::nccl})) << "the default";
}

}  // namespace ddl
