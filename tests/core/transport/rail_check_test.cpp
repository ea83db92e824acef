#include "core/transport/rail_check.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>

namespace ddl {
namespace {

constexpr double kLong_s = 20, kShort_s = 0.3;

TEST(RailDoors, AnswerWithoutAnybodyAcceptingAnything) {
  RailDoors doors(std::vector<TcpRail>{{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}});
  std::vector<Knock> knocks(40, {"127.0.0.1", "127.0.0.1", doors.port(0)});
  knocks.push_back({"127.0.0.2", "127.0.0.2", doors.port(1)});
  EXPECT_EQ(knock(knocks, kLong_s), std::vector<std::string>(41));
}

TEST(RailDoors, AClosedDoorIsToldFromAnOpenOneWithItsReason) {
  std::uint16_t closed = 0;
  {
    RailDoors gone(std::vector<TcpRail>{{"lo", "127.0.0.1"}});
    closed = gone.port(0);
  }
  RailDoors doors(std::vector<TcpRail>{{"lo", "127.0.0.2"}});
  std::vector<std::string> reasons =
      knock({{"127.0.0.1", "127.0.0.1", closed}, {"127.0.0.1", "127.0.0.2", doors.port(0)}}, kLong_s);
  EXPECT_EQ(reasons[0], "Connection refused");
  EXPECT_EQ(reasons[1], "");
}

TEST(RailDoors, SilenceEndsWithThePatience) {
  // A listener whose queue is full lets further connections wait in silence.
  Endpoint local;
  Socket full = listen_on(TcpRail{"lo", "127.0.0.1"}, local);
  ASSERT_EQ(::listen(full.fd(), 0), 0);
  std::vector<Knock> knocks(1, {"127.0.0.1", "127.0.0.1", local.port});
  std::vector<Socket> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(start_connecting(local));
  EXPECT_EQ(knock(knocks, kShort_s)[0], "no answer in 0.3 s");
}

TEST(RailDoors, AddressesOfDifferentFamiliesAreNotTried) {
  EXPECT_NE(knock({{"127.0.0.1", "::1", 1}, {"", "127.0.0.1", 1}}, kLong_s), std::vector<std::string>(2));
}

TEST(RailCheck, EveryHostTriesAndIsTriedAndTheNextInTheRingIsAmongThem) {
  EXPECT_TRUE(hosts_to_try(0, 1).empty());
  for (HostIndex hosts : {2, 3, 4, 7, 1000}) {
    std::set<HostIndex> tried;
    for (HostIndex from = 0; from < hosts; ++from) {
      std::vector<HostIndex> others = hosts_to_try(from, hosts);
      EXPECT_EQ(others[0], (from + 1) % hosts);
      EXPECT_LE(others.size(), 10u);
      EXPECT_EQ(std::count(others.begin(), others.end(), from), 0);
      tried.insert(others.begin(), others.end());
    }
    EXPECT_EQ(tried.size(), static_cast<std::size_t>(hosts));
  }
}

}  // namespace
}  // namespace ddl
