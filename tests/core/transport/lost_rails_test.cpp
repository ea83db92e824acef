#include "core/transport/lost_rails.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Rank kPeer = 7, kOther = 8;
constexpr auto kBroken = LostRails::Kind::broken, kAvoided = LostRails::Kind::avoided;

// Two or three lanes, at one moment.
struct Lanes : LostRails {
  using LostRails::LostRails;
  bool breaks(std::size_t lane, Rank peer = kPeer) { return lose(peer, lane, kBroken, 0, kSecond); }
  bool is_avoided(std::size_t lane, Rank peer = kPeer) { return lose(peer, lane, kAvoided, 0, kSecond); }
};

}  // namespace

TEST(LostRails, TheNextLaneThatIsLeftCarries) {
  Lanes lanes(3);
  EXPECT_FALSE(lanes.any());
  EXPECT_TRUE(lanes.breaks(1));
  EXPECT_EQ(lanes.carrier(kPeer, 0), 0u);
  EXPECT_EQ(lanes.carrier(kPeer, 1), 2u);
  EXPECT_EQ(lanes.carrier(kOther, 1), 1u);
  EXPECT_TRUE(lanes.breaks(2));
  EXPECT_EQ(lanes.carrier(kPeer, 1), 0u);
  EXPECT_TRUE(lanes.breaks(0));
  EXPECT_FALSE(lanes.carrier(kPeer, 1));
  lanes.regain(kPeer, 2);
  EXPECT_EQ(lanes.carrier(kPeer, 0), 2u);
  EXPECT_TRUE(lanes.any_on(0) && lanes.any_on(1) && !lanes.any_on(2));
}

TEST(LostRails, TheLastIsNotTakenAwayBecauseItIsSlow) {
  for (std::size_t count : {1, 2, 3}) {
    Lanes lanes(count);
    for (std::size_t lane = 1; lane < count; ++lane) EXPECT_TRUE(lanes.is_avoided(lane));
    EXPECT_FALSE(lanes.is_avoided(0));
    EXPECT_FALSE(lanes.is_lost(kPeer, 0));
    EXPECT_EQ(lanes.times(kPeer, 0), 0u) << "no stream of it has ended";
    EXPECT_EQ(lanes.carrier(kPeer, count - 1), 0u);
  }
}

TEST(LostRails, WhatIsOnlyAvoidedCarriesAgainWhenTheOthersBreak) {
  Lanes lanes(3);
  lanes.is_avoided(1);
  lanes.is_avoided(1, kOther);
  lanes.breaks(0);
  EXPECT_TRUE(lanes.is_lost(kPeer, 1)) << "another carries";
  EXPECT_TRUE(lanes.breaks(2));
  EXPECT_EQ(lanes.carrier(kPeer, 0), 1u);
  EXPECT_TRUE(lanes.is_lost(kOther, 1)) << "that peer has others";
  EXPECT_TRUE(lanes.breaks(1)) << "once it has been tried there is nothing left";
  EXPECT_FALSE(lanes.carrier(kPeer, 0));
}

TEST(LostRails, WhatBreaksWhileItIsAvoidedIsNotTakenBack) {
  Lanes lanes(2);
  lanes.is_avoided(1);
  EXPECT_FALSE(lanes.is_last_resort(kPeer, 0));
  EXPECT_FALSE(lanes.breaks(1));
  EXPECT_TRUE(lanes.is_last_resort(kPeer, 0));
  EXPECT_TRUE(lanes.breaks(0));
  EXPECT_FALSE(lanes.carrier(kPeer, 0));
}

TEST(LostRails, TheyAreTriedAgainEverMoreRarely) {
  Lanes lanes(2);
  lanes.lose(kPeer, 1, kBroken, 0, kSecond);
  EXPECT_TRUE(lanes.due(kSecond - 1).empty());
  EXPECT_EQ(lanes.due(kSecond).size(), 1u);
  EXPECT_TRUE(lanes.due(3 * kSecond - 1).empty());
  EXPECT_EQ(lanes.due(3 * kSecond).size(), 1u);
}

TEST(LostRails, WhoHearsOfASlowRailLeavesItAloneAsLong) {
  Lanes lanes(2);
  lanes.lose(kPeer, 1, kAvoided, 0, kSecond);  // its connection has ended
  EXPECT_FALSE(lanes.lose(kPeer, 1, kAvoided, 0, 60 * kSecond)) << "and here is why";
  EXPECT_TRUE(lanes.due(60 * kSecond - 1).empty());
  EXPECT_EQ(lanes.due(60 * kSecond).size(), 1u);
}

}  // namespace ddl
