#include "core/bootstrap/peer_watch.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/bootstrap/rendezvous_server.hpp"
#include "tests/support/patience.hpp"

namespace ddl {
namespace {

using test::kLong_s;

struct Member {
  std::shared_ptr<RendezvousClient> rendezvous;
  PeerWatch watch;
  Member(const RendezvousId& id, Rank rank, Rank size)
      : rendezvous(std::make_shared<RendezvousClient>(id, rank, size, kLong_s)), watch(rendezvous) {}
};

// Two ranks that have met; the second may go.
struct MemberPair {
  RendezvousServer server{{kLong_s, kLong_s}};
  std::unique_ptr<Member> stays = std::make_unique<Member>(server.id(), 0, 2);
  std::unique_ptr<Member> goes = std::make_unique<Member>(server.id(), 1, 2);
  MemberPair() {
    goes->rendezvous->give({});
    stays->rendezvous->exchange({});
    goes->rendezvous->receive();
  }
  std::string wait() {
    std::string why;
    while ((why = stays->watch.overdue()).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return why;
  }
};

TEST(PeerWatch, TellsAfterAWhileThatARankIsGone) {
  MemberPair pair;
  pair.stays->watch.begin();
  EXPECT_EQ(pair.stays->watch.overdue(), "");
  pair.goes->watch.vanish();
  EXPECT_EQ(pair.wait().substr(0, 14), "rank 1 is gone");
  pair.stays->watch.begin();  // another wait has its own patience
  EXPECT_EQ(pair.stays->watch.overdue(), "");
  EXPECT_EQ(pair.wait().substr(0, 14), "rank 1 is gone");
}

TEST(PeerWatch, WhoGoesEndsARoundOfItsOwn) {
  MemberPair pair;
  std::thread meets([&] { EXPECT_THROW(pair.goes->watch.exchange({}), Error); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // most likely it is in the round by then
  pair.goes->watch.vanish();
  meets.join();
  EXPECT_THROW(pair.goes->watch.exchange({}), Error);
}

TEST(PeerWatch, WhoLeavesProperlyIsNotGone) {
  MemberPair pair;
  pair.goes.reset();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(pair.stays->rendezvous->look(), "");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace
}  // namespace ddl
