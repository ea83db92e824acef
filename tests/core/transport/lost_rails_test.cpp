#include "core/transport/lost_rails.hpp"

#include <gtest/gtest.h>

#include "tests/support/seconds.hpp"

namespace ddl {
namespace {

constexpr Rank kPeer = 7, kAnother = 8;
constexpr auto kBroken = LostRails::Kind::broken, kAvoided = LostRails::Kind::avoided;

// Two or three rails, at one moment.
struct Rails : LostRails {
  using LostRails::LostRails;
  bool breaks(std::size_t rail, Rank peer = kPeer) { return lose(peer, rail, kBroken, 0, kSecond); }
  bool is_avoided(std::size_t rail, Rank peer = kPeer) { return lose(peer, rail, kAvoided, 0, kSecond); }
};

}  // namespace

TEST(LostRails, TheNextRailThatIsLeftCarries) {
  Rails rails(3);
  EXPECT_FALSE(rails.any());
  EXPECT_TRUE(rails.breaks(1));
  EXPECT_EQ(rails.carrier(kPeer, 0), 0u);
  EXPECT_EQ(rails.carrier(kPeer, 1), 2u);
  EXPECT_EQ(rails.carrier(kAnother, 1), 1u);
  EXPECT_TRUE(rails.breaks(2));
  EXPECT_EQ(rails.carrier(kPeer, 1), 0u);
  EXPECT_TRUE(rails.breaks(0));
  EXPECT_FALSE(rails.carrier(kPeer, 1));
  rails.regain(kPeer, 2);
  EXPECT_EQ(rails.carrier(kPeer, 0), 2u);
  EXPECT_TRUE(rails.any_on(0) && rails.any_on(1) && !rails.any_on(2));
}

TEST(LostRails, TheLastIsNotTakenAwayBecauseItIsSlow) {
  for (std::size_t count : {1, 2, 3}) {
    Rails rails(count);
    for (std::size_t rail = 1; rail < count; ++rail) EXPECT_TRUE(rails.is_avoided(rail));
    EXPECT_FALSE(rails.is_avoided(0));
    EXPECT_FALSE(rails.is_lost(kPeer, 0));
    EXPECT_EQ(rails.times(kPeer, 0), 0u) << "no stream of it has ended";
    EXPECT_EQ(rails.carrier(kPeer, count - 1), 0u);
  }
}

TEST(LostRails, WhatIsOnlyAvoidedCarriesAgainWhenTheOthersBreak) {
  Rails rails(3);
  rails.is_avoided(1);
  rails.is_avoided(1, kAnother);
  rails.breaks(0);
  EXPECT_TRUE(rails.is_lost(kPeer, 1)) << "another carries";
  EXPECT_TRUE(rails.breaks(2));
  EXPECT_EQ(rails.carrier(kPeer, 0), 1u);
  EXPECT_TRUE(rails.is_lost(kAnother, 1)) << "that peer has others";
  EXPECT_TRUE(rails.breaks(1)) << "once it has been tried there is nothing left";
  EXPECT_FALSE(rails.carrier(kPeer, 0));
}

TEST(LostRails, WhatBreaksWhileItIsAvoidedIsNotTakenBack) {
  Rails rails(2);
  rails.is_avoided(1);
  EXPECT_FALSE(rails.is_last_resort(kPeer, 0));
  EXPECT_FALSE(rails.breaks(1));
  EXPECT_TRUE(rails.is_last_resort(kPeer, 0));
  EXPECT_TRUE(rails.breaks(0));
  EXPECT_FALSE(rails.carrier(kPeer, 0));
}

TEST(LostRails, TheyAreTriedAgainEverMoreRarely) {
  Rails rails(2);
  rails.lose(kPeer, 1, kBroken, 0, kSecond);
  EXPECT_TRUE(rails.due(kSecond - 1).empty());
  EXPECT_EQ(rails.due(kSecond).size(), 1u);
  EXPECT_TRUE(rails.due(3 * kSecond - 1).empty());
  EXPECT_EQ(rails.due(3 * kSecond).size(), 1u);
}

TEST(LostRails, WhoHearsOfASlowRailLeavesItAloneAsLong) {
  Rails rails(2);
  rails.lose(kPeer, 1, kAvoided, 0, kSecond);  // its connection has ended
  EXPECT_FALSE(rails.lose(kPeer, 1, kAvoided, 0, 60 * kSecond)) << "and here is why";
  EXPECT_TRUE(rails.due(60 * kSecond - 1).empty());
  EXPECT_EQ(rails.due(60 * kSecond).size(), 1u);
}

}  // namespace ddl
