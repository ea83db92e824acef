#include "core/net/wait.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <thread>

#include "core/base/error.hpp"
#include "tests/support/socket_pair.hpp"

namespace ddl {

using test::SocketPair;

TEST(Timeout, EndsAndCountsNoTimeInWhichTheProcessWasStopped) {
  Timeout none(0);
  EXPECT_TRUE(none.is_over());
  Timeout longer(1.2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // not asked meanwhile, as if stopped
  EXPECT_FALSE(longer.is_over());
  Timeout some(0.05);
  while (!some.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(some.nap()));
}

TEST(Wait, ForOneEndsWhenItIsReadyOrBrokenOrTheTimeIsOver) {
  SocketPair pair;
  Timeout forever(300), at_once(0.02);
  EXPECT_TRUE(wait_until(pair.a, Ready::write, forever));
  EXPECT_FALSE(wait_until(pair.a, Ready::read, at_once));
  test::write(pair.b, "x", 1);
  EXPECT_TRUE(wait_until(pair.a, Ready::read, forever));
  pair.b.close();
  EXPECT_TRUE(wait_until(pair.a, Ready::broken, forever));
}

TEST(Wait, OfSeveralThoseAreReadyThatAreAndClosedOnesNever) {
  SocketPair quiet, speaks;
  PollSet set;
  set.add(Socket(), Ready::either);
  set.add(quiet.a, Ready::read);
  set.add(speaks.a, Ready::read);
  set.add(speaks.a, Ready::broken);
  EXPECT_FALSE(set.wait(0));
  test::write(speaks.b, "x", 1);
  EXPECT_TRUE(set.wait(-1));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(set.is_ready(i), i == 2) << i;
  char memory;
  iovec piece = piece_of(&memory, 1);
  EXPECT_EQ(speaks.a.receive({&piece, 1}), 1);
  EXPECT_FALSE(set.wait(0));
  EXPECT_FALSE(set.is_ready(2)) << "an answer of before";
}

TEST(EventSet, TellsTheKeysOfThoseThatHaveSomethingToSayAndIsReadableThen) {
  EventSet events;
  SocketPair quiet, speaks;
  events.watch(quiet.a, EPOLLIN, 1);
  events.watch(speaks.a, EPOLLIN, std::uint64_t{7} << 32 | 2);
  EXPECT_TRUE(events.look().empty());
  FileDescriptor own(::dup(events.fd()));
  Timeout at_once(0), forever(300);
  EXPECT_FALSE(wait_until(own, Ready::read, at_once));
  test::write(speaks.b, "x", 1);
  EXPECT_TRUE(wait_until(own, Ready::read, forever));
  ASSERT_EQ(events.look().size(), 1u);
  EXPECT_EQ(events.look()[0].data.u64, std::uint64_t{7} << 32 | 2);
  speaks.a.close();  // forgets it
  EXPECT_TRUE(events.look().empty());
  EXPECT_THROW(events.watch(Socket(), EPOLLIN, 3), Error);
}

}  // namespace ddl
