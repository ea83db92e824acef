#include "core/bootstrap/common_rails.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

struct Rail {
  std::string interface, subnet, ip;
};

EndpointInfo endpoint_with(const std::string& host, const std::vector<Rail>& rails) {
  EndpointInfo endpoint;
  endpoint.host = host;
  endpoint.boot_id = "boot-" + host;
  for (const Rail& rail : rails) endpoint.rails.push_back({rail.interface, rail.subnet, {}, rail.ip, 4711});
  return endpoint;
}

JobMap job_map_of(const std::vector<EndpointInfo>& endpoints) {
  return map_job({endpoints.begin(), endpoints.end()});
}

const Rail kFirst0 = {"r0", "10.0.0.0/24", "10.0.0.1"}, kSecond0 = {"r1", "10.0.1.0/24", "10.0.1.1"};
const Rail kFirst1 = {"r0", "10.0.0.0/24", "10.0.0.2"}, kSecond1 = {"r1", "10.0.1.0/24", "10.0.1.2"};

}  // namespace

TEST(Rails, ARailThatIsDownOnOneHostIsNotedAndTheOtherIsUsed) {
  EndpointInfo second = endpoint_with("h1", {kFirst1});
  second.idle_rails = {{"r1", "10.0.1.0/24", "down", false}};
  JobMap job_map = job_map_of({endpoint_with("h0", {kFirst0, kSecond0}), second, second});
  EXPECT_EQ(job_map.rails, std::vector<std::string>{"10.0.0.0/24"});
  EXPECT_EQ(job_map.notes, std::vector<std::string>{"rail r1 of h1 is not used (down)"});
}

TEST(Rails, AnInterfaceThatNobodyUsesIsNotMissed) {
  EndpointInfo first = endpoint_with("h0", {kFirst0}), second = endpoint_with("h1", {kFirst1});
  first.idle_rails = second.idle_rails = {{"eth7", "", "down", false}};
  EXPECT_TRUE(job_map_of({first, second}).notes.empty());
}

TEST(Rails, WhatTheUserNamedIsMissedAndSaidOnceForAllHosts) {
  std::vector<EndpointInfo> endpoints;
  for (int h = 0; h < 6; ++h) {
    std::string number = std::to_string(h);
    endpoints.push_back(endpoint_with("h" + number, {{"r0", "10.0.0.0/24", "10.0.0." + number}}));
    endpoints.back().idle_rails = {{"nosuch0", "", "there is no such interface", true}};
  }
  EXPECT_EQ(job_map_of(endpoints).notes,
            std::vector<std::string>{
                "rail nosuch0 of h0, h1, h2 and 3 more is not used (there is no such interface)"});
}

TEST(Rails, ANetworkThatSomeHostsLackIsNamed) {
  std::vector<std::string> h2_lacks{"network 10.0.1.0/24 is not used (h2 has no address in it)"};
  EndpointInfo first = endpoint_with("h0", {kFirst0, kSecond0}),
               second = endpoint_with("h1", {kFirst1, kSecond1});
  Rail third = {"r0", "10.0.0.0/24", "10.0.0.3"};
  EXPECT_EQ(job_map_of({first, second, endpoint_with("h2", {third})}).notes, h2_lacks);
  Rail elsewhere = {"r1", "10.88.1.0/24", "10.88.1.3"};
  EXPECT_EQ(job_map_of({first, second, endpoint_with("h2", {third, elsewhere})}).notes, h2_lacks);
  EXPECT_EQ(job_map_of({first, endpoint_with("h1", {kFirst1, elsewhere})}).notes,
            std::vector<std::string>{"network 10.0.1.0/24 is not used (h1 has no address in it)"});
}

TEST(Rails, ANetworkOfOneHostAloneIsItsOwnAffair) {
  Rail own = {"virbr9", "192.168.122.0/24", "192.168.122.1"};
  EXPECT_TRUE(
      job_map_of({endpoint_with("h0", {kFirst0, own}), endpoint_with("h1", {kFirst1})}).notes.empty());
}

TEST(Rails, AHostWithoutAnyRailSaysWhy) {
  EndpointInfo second = endpoint_with("h1", {});
  second.idle_rails = {{"r0", "10.0.0.0/24", "down", false}, {"r1", "", "has no IPv4 address", false}};
  EXPECT_EQ(job_map_of({endpoint_with("h0", {kFirst0}), second}).trouble,
            "rank 1 on h1 has no usable network interface between hosts (r0: down, r1: has no IPv4 address)");
}

TEST(Rails, ANetworkInWhichTwoHostsHaveTheSameAddressIsNone) {
  Rail nat = {"eth1", "10.0.2.0/24", "10.0.2.15"};
  JobMap job_map = job_map_of({endpoint_with("h0", {nat, kFirst0}), endpoint_with("h1", {nat, kFirst1})});
  EXPECT_EQ(job_map.rails, std::vector<std::string>{"10.0.0.0/24"});
  ASSERT_EQ(job_map.notes.size(), 1u);
  EXPECT_EQ(job_map.notes[0], "network 10.0.2.0/24 is not used (h0 and h1 both are 10.0.2.15 in it)");
}

TEST(Rails, ThoseThatAreNotKeptLeaveTheRailsOfAllRanks) {
  JobMap job_map =
      job_map_of({endpoint_with("h0", {kFirst0, kSecond0}), endpoint_with("h1", {kSecond1, kFirst1})});
  EXPECT_EQ(job_map.leaders(), (std::vector<Rank>{0, 1}));
  job_map.rail_gbit = {10, 25};
  job_map.keep_rails({false, true});
  EXPECT_EQ(job_map.rail_gbit, std::vector<double>{25});
  EXPECT_EQ(job_map.rails, std::vector<std::string>{"10.0.1.0/24"});
  EXPECT_EQ(job_map.interface_of_rail, (std::vector<std::vector<std::size_t>>{{1}, {0}}));
}

}  // namespace ddl
