#include "core/bootstrap/lanes.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

struct Rail {
  std::string interface, subnet, ip;
};

Card card_on(const std::string& host, const std::vector<Rail>& rails) {
  Card card;
  card.host = host;
  card.boot_id = "boot-" + host;
  for (const Rail& rail : rails) card.rails.push_back({rail.interface, rail.subnet, {}, rail.ip, 4711});
  return card;
}

Census census_of(const std::vector<Card>& cards) { return take_census({cards.begin(), cards.end()}); }

const Rail kFirst0 = {"r0", "10.0.0.0/24", "10.0.0.1"}, kSecond0 = {"r1", "10.0.1.0/24", "10.0.1.1"};
const Rail kFirst1 = {"r0", "10.0.0.0/24", "10.0.0.2"}, kSecond1 = {"r1", "10.0.1.0/24", "10.0.1.2"};

}  // namespace

TEST(Lanes, ARailThatIsDownOnOneHostIsNotedAndTheOtherIsUsed) {
  Card second = card_on("h1", {kFirst1});
  second.idle_rails = {{"r1", "10.0.1.0/24", "down", false}};
  Census census = census_of({card_on("h0", {kFirst0, kSecond0}), second, second});
  EXPECT_EQ(census.lanes, std::vector<std::string>{"10.0.0.0/24"});
  EXPECT_EQ(census.notes, std::vector<std::string>{"rail r1 of h1 is not used (down)"});
}

TEST(Lanes, AnInterfaceThatNobodyUsesIsNotMissed) {
  Card first = card_on("h0", {kFirst0}), second = card_on("h1", {kFirst1});
  first.idle_rails = second.idle_rails = {{"eth7", "", "down", false}};
  EXPECT_TRUE(census_of({first, second}).notes.empty());
}

TEST(Lanes, WhatTheUserNamedIsMissedAndSaidOnceForAllHosts) {
  std::vector<Card> cards;
  for (int h = 0; h < 6; ++h) {
    std::string number = std::to_string(h);
    cards.push_back(card_on("h" + number, {{"r0", "10.0.0.0/24", "10.0.0." + number}}));
    cards.back().idle_rails = {{"nosuch0", "", "there is no such interface", true}};
  }
  EXPECT_EQ(census_of(cards).notes,
            std::vector<std::string>{
                "rail nosuch0 of h0, h1, h2 and 3 more is not used (there is no such interface)"});
}

TEST(Lanes, ANetworkThatSomeHostsLackIsNamed) {
  std::vector<std::string> h2_lacks{"network 10.0.1.0/24 is not used (h2 has no address in it)"};
  Card first = card_on("h0", {kFirst0, kSecond0}), second = card_on("h1", {kFirst1, kSecond1});
  Rail third = {"r0", "10.0.0.0/24", "10.0.0.3"};
  EXPECT_EQ(census_of({first, second, card_on("h2", {third})}).notes, h2_lacks);
  Rail elsewhere = {"r1", "10.88.1.0/24", "10.88.1.3"};
  EXPECT_EQ(census_of({first, second, card_on("h2", {third, elsewhere})}).notes, h2_lacks);
  EXPECT_EQ(census_of({first, card_on("h1", {kFirst1, elsewhere})}).notes,
            std::vector<std::string>{"network 10.0.1.0/24 is not used (h1 has no address in it)"});
}

TEST(Lanes, ANetworkOfOneHostAloneIsItsOwnAffair) {
  Rail own = {"virbr9", "192.168.122.0/24", "192.168.122.1"};
  EXPECT_TRUE(census_of({card_on("h0", {kFirst0, own}), card_on("h1", {kFirst1})}).notes.empty());
}

TEST(Lanes, AHostWithoutAnyRailSaysWhy) {
  Card second = card_on("h1", {});
  second.idle_rails = {{"r0", "10.0.0.0/24", "down", false}, {"r1", "", "has no IPv4 address", false}};
  EXPECT_EQ(census_of({card_on("h0", {kFirst0}), second}).trouble,
            "rank 1 on h1 has no usable network interface between hosts (r0: down, r1: has no IPv4 address)");
}

TEST(Lanes, ANetworkInWhichTwoHostsHaveTheSameAddressIsNone) {
  Rail nat = {"eth1", "10.0.2.0/24", "10.0.2.15"};
  Census census = census_of({card_on("h0", {nat, kFirst0}), card_on("h1", {nat, kFirst1})});
  EXPECT_EQ(census.lanes, std::vector<std::string>{"10.0.0.0/24"});
  ASSERT_EQ(census.notes.size(), 1u);
  EXPECT_EQ(census.notes[0], "network 10.0.2.0/24 is not used (h0 and h1 both are 10.0.2.15 in it)");
}

TEST(Lanes, ThoseThatAreNotKeptLeaveTheRailsOfAllRanks) {
  Census census = census_of({card_on("h0", {kFirst0, kSecond0}), card_on("h1", {kSecond1, kFirst1})});
  EXPECT_EQ(census.leaders(), (std::vector<Rank>{0, 1}));
  census.lane_gbit = {10, 25};
  census.keep_lanes({false, true});
  EXPECT_EQ(census.lane_gbit, std::vector<double>{25});
  EXPECT_EQ(census.lanes, std::vector<std::string>{"10.0.1.0/24"});
  EXPECT_EQ(census.rail_of_lane, (std::vector<std::vector<std::size_t>>{{1}, {0}}));
}

}  // namespace ddl
