#include "launcher/starter_watch.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

using std::chrono::seconds;

const StarterWatch::Time kStart{};
const StarterSeen kRuns = {true, ""}, kLocked = {false, "202 0x7f00 0x80"},
                  kOtherLock = {false, "202 0x7f08 0x80"}, kPolls = {false, ""};

}  // namespace

TEST(StarterWatch, IsStuckWhenItWaitsForTheSameLockAfterItsLastChild) {
  StarterWatch watch;
  EXPECT_FALSE(watch.is_stuck(kRuns, kStart));
  EXPECT_FALSE(watch.is_stuck(kLocked, kStart + seconds(1)));
  EXPECT_FALSE(watch.is_stuck(kLocked, kStart + seconds(5)));
  EXPECT_TRUE(watch.is_stuck(kLocked, kStart + seconds(6)));
}

TEST(StarterWatch, IsNotStuckBeforeItHasStartedAnything) {
  StarterWatch watch;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(watch.is_stuck(kLocked, kStart + seconds(i)));
}

TEST(StarterWatch, IsNotStuckWhileItHasChildrenOrDoesAnythingElse) {
  StarterWatch watch;
  StarterSeen busy = kLocked;
  busy.has_children = true;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(watch.is_stuck(busy, kStart + seconds(i)));
  for (int i = 20; i < 40; ++i) EXPECT_FALSE(watch.is_stuck(i % 4 ? kLocked : kPolls, kStart + seconds(i)));
  for (int i = 40; i < 60; ++i)
    EXPECT_FALSE(watch.is_stuck(i % 2 ? kLocked : kOtherLock, kStart + seconds(i)));
}

}  // namespace ddl
