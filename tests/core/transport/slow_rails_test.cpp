#include "core/transport/slow_rails.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

constexpr Nanoseconds kWindow = 2'000'000'000;
constexpr Bytes kMuch = 1 << 20;

// Inspections of a stream, half a second apart.
struct Inspected {
  StreamPace pace;
  StreamPace::Sample sample{0, 0, 0, 0, true};
  std::optional<double> look(Bytes moved, Bytes backlog) {
    sample.acknowledged += moved;
    sample.backlog = backlog;
    return pace.inspect(sample, kWindow / 4);
  }
};

// So many samples of two rails, of which each carries `moved` bytes more than in the one before.
struct RailsOverTime {
  SlowRails rails;
  SlowRails::Load first{0, 0, 0, 0, true}, second{0, 0, 0, 0, true};
  void sample(int times, Bytes backlog, Bytes other_backlog, Bytes moved = kMuch, Bytes other_moved = kMuch) {
    for (int i = 0; i < times; ++i) {
      first.acknowledged += moved, second.acknowledged += other_moved;
      first.backlog = backlog, second.backlog = other_backlog;
      const SlowRails::Load loads[] = {first, second};
      rails.sample(loads);
    }
  }
  // A window in which both are eight times as fast as later.
  void begin_fast() {
    sample(20, kMuch, kMuch, 8 * kMuch, 8 * kMuch);
    EXPECT_TRUE(rails.conclude(kWindow).empty());
  }
};

}  // namespace

TEST(StreamPace, WhatTakesSecondsForWhatWaitsIsTooSlow) {
  Inspected stream;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(stream.look(50'000, kMuch));
  const auto rate = stream.look(50'000, kMuch);
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(*rate, 100'000);
  EXPECT_TRUE(stream.look(50'000, 200'001));
  EXPECT_FALSE(stream.look(50'000, 200'000)) << "two seconds";
}

TEST(StreamPace, OneThatNobodyAnswersOnHasNoRate) {
  Inspected stream;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(stream.look(0, 1));
  const auto rate = stream.look(0, 1);
  ASSERT_TRUE(rate);
  EXPECT_EQ(*rate, 0);
  EXPECT_FALSE(stream.look(0, 0)) << "there is nothing to answer to";
}

TEST(StreamPace, OneThatWaitsForItsReaderOrLikeTheOthersIsNotSlow) {
  Inspected stream;
  for (int i = 0; i < 10; ++i) {
    stream.sample.waited_for_reader += kWindow / 8;
    EXPECT_FALSE(stream.look(0, kMuch));
  }
  stream.sample.is_other_free = false;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(stream.look(0, kMuch));
  stream.sample.is_other_free = true;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(stream.look(0, kMuch));
  stream.sample.is_other_free = false;
  EXPECT_FALSE(stream.look(0, kMuch)) << "in a row";
}

TEST(SlowRails, OneThatWorksWhileTheOtherIsThroughIsSlow) {
  RailsOverTime rails;
  rails.begin_fast();
  rails.sample(4, kMuch, kMuch);
  rails.sample(16, kMuch, 0);
  const auto slow = rails.rails.conclude(kWindow);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].rail, 0u);
  EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
}

// A reader may take its time to say that it has the last of it.
TEST(SlowRails, WhatTheOtherHasNotBeenToldYetIsNoWork) {
  RailsOverTime rails;
  rails.begin_fast();
  const Carried some = Carried::by_stream(0, 3000, 0);
  EXPECT_TRUE(some.is_through());
  EXPECT_FALSE(Carried::by_stream(0, kMuch, 0).is_through());
  Carried two = some;
  two.add(some);
  EXPECT_TRUE(two.is_through()) << "of several streams";
  two.add(Carried::by_stream(0, kMuch, 0));
  EXPECT_FALSE(two.is_through());
  rails.second.untold = some.backlog;
  rails.sample(20, kMuch, some.backlog);
  EXPECT_EQ(rails.rails.conclude(kWindow).size(), 1u);
}

// To many peers they come to much together.
TEST(SlowRails, SmallMessagesToManyPeersAreNoWork) {
  RailsOverTime rails;
  rails.begin_fast();
  constexpr Bytes kPeers = 56, kSmall = 3000;
  rails.first.untold = rails.second.untold = kPeers * kSmall;
  rails.sample(40, kPeers * kSmall, kPeers * kSmall);
  EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
}

TEST(SlowRails, OneThatHasNeverBeenFasterIsNot) {
  RailsOverTime rails;
  for (int i = 0; i < 3; ++i) {
    rails.sample(20, kMuch, 0);
    EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
  }
}

TEST(SlowRails, ThoseThatWorkTogetherAreNot) {
  RailsOverTime rails;
  rails.begin_fast();
  rails.sample(20, kMuch, kMuch);
  rails.sample(5, kMuch, 0);
  rails.sample(5, 0, kMuch);
  rails.sample(100, 0, 0);
  EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
}

TEST(SlowRails, OneThatCarriesAloneIsNot) {
  RailsOverTime rails;
  rails.begin_fast();
  rails.sample(40, kMuch, 0, kMuch, 0);
  EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
  rails.sample(40, 1000, 0);  // small messages beside large ones
  EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
}

TEST(SlowRails, OneThatWaitsForItsReaderIsNot) {
  RailsOverTime rails;
  rails.begin_fast();
  rails.sample(10, kMuch, 0);
  rails.first.waited_for_reader = kWindow / 2;
  rails.sample(10, kMuch, 0);
  EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
}

// The other carries for it as well.
TEST(SlowRails, NothingIsSlowWhileARailDoesNotCarryToSomebody) {
  RailsOverTime rails;
  rails.begin_fast();
  rails.second.is_whole = false;
  rails.sample(1, kMuch, 0);
  rails.second.is_whole = true;
  rails.sample(19, kMuch, 0);
  EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
  rails.sample(20, kMuch, 0);
  EXPECT_EQ(rails.rails.conclude(kWindow).size(), 1u);
}

TEST(SlowRails, AFewSamplesAreNoProof) {
  RailsOverTime rails;
  rails.begin_fast();
  rails.sample(9, kMuch, 0);
  EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
}

TEST(SlowRails, NobodyIsFreeOnARailThatIsLost) {
  RailsOverTime rails;
  rails.begin_fast();
  rails.second.is_usable = false;
  rails.sample(40, kMuch, 0);
  EXPECT_TRUE(rails.rails.conclude(kWindow).empty());
}

}  // namespace ddl
