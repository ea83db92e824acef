#include "core/transport/rail_check.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>

#include "tests/support/patience.hpp"

namespace ddl {
namespace {

using test::kLong_s;
constexpr double kShort_s = 0.3;

TEST(RailListeners, AnswerWithoutAnybodyAcceptingAnything) {
  RailListeners listeners(std::vector<TcpRail>{{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}});
  std::vector<RailProbe> probes(40, {"127.0.0.1", "127.0.0.1", listeners.port(0)});
  probes.push_back({"127.0.0.2", "127.0.0.2", listeners.port(1)});
  EXPECT_EQ(probe_rails(probes, kLong_s), std::vector<std::string>(41));
}

TEST(RailListeners, AClosedDoorIsToldFromAnOpenOneWithItsReason) {
  std::uint16_t closed = 0;
  {
    RailListeners gone(std::vector<TcpRail>{{"lo", "127.0.0.1"}});
    closed = gone.port(0);
  }
  RailListeners listeners(std::vector<TcpRail>{{"lo", "127.0.0.2"}});
  std::vector<std::string> reasons = probe_rails(
      {{"127.0.0.1", "127.0.0.1", closed}, {"127.0.0.1", "127.0.0.2", listeners.port(0)}}, kLong_s);
  EXPECT_EQ(reasons[0], "Connection refused");
  EXPECT_EQ(reasons[1], "");
}

TEST(RailListeners, SilenceEndsWithThePatience) {
  // A listener whose queue is full lets further connections wait in silence.
  Endpoint local;
  Socket full = listen_on(TcpRail{"lo", "127.0.0.1"}, local);
  ASSERT_EQ(::listen(full.fd(), 0), 0);
  std::vector<RailProbe> probes(1, {"127.0.0.1", "127.0.0.1", local.port});
  std::vector<Socket> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(start_connecting(local));
  EXPECT_EQ(probe_rails(probes, kShort_s)[0], "no answer in 0.3 s");
}

TEST(RailListeners, AddressesOfDifferentFamiliesAreNotTried) {
  EXPECT_NE(probe_rails({{"127.0.0.1", "::1", 1}, {"", "127.0.0.1", 1}}, kLong_s),
            std::vector<std::string>(2));
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
