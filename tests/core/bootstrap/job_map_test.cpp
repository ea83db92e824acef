#include "core/bootstrap/job_map.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ddl {
namespace {

EndpointInfo endpoint_on(const std::string& host,
                         std::vector<std::pair<std::string, std::string>> rails = {}) {
  EndpointInfo endpoint;
  endpoint.host = host;
  endpoint.boot_id = "boot-" + host;
  endpoint.ipc = "4026531839";
  endpoint.cpus = {0, 1};
  endpoint.progress_hook = true;
  endpoint.staging = 1 << 20;
  for (auto& [interface, subnet] : rails)
    endpoint.rails.push_back({interface, subnet, {std::byte{7}, std::byte{9}}});
  return endpoint;
}

std::vector<std::optional<EndpointInfo>> all(std::vector<EndpointInfo> endpoints) {
  return {endpoints.begin(), endpoints.end()};
}

}  // namespace

// Every field differs from its default and from its neighbours.
EndpointInfo full_endpoint() {
  EndpointInfo endpoint = endpoint_on("h1", {{"r0", "10.0.0.0/24"}, {"r1", "10.0.1.0/24"}});
  endpoint.rails[0].ip = "10.0.0.1";
  endpoint.rails[0].probe_port = 40'000;
  endpoint.rails[0].gbit = 2.5;
  endpoint.idle_rails = {{"docker0", "172.17.0.0/16", "a bridge", true}, {}};
  endpoint.trouble = "no memory";
  endpoint.pid = 7;
  endpoint.fd = 8;
  endpoint.bell = 9;
  endpoint.nonce = ~std::uint64_t{0};
  endpoint.numa_node = 3;
  endpoint.wire = "tcp";
  endpoint.fake_hosts = {2, 1};
  endpoint.segment = Bytes{5} << 32;
  endpoint.report = endpoint.deterministic = true;
  endpoint.options = "-mode b:2x2";
  endpoint.tuning = std::string("{\0}", 3);
  endpoint.cpu_model = "a processor";
  endpoint.gradients = {WireType::float16,
                        WireWhere::everywhere,
                        {4096, {{4, 1000}, {8, BytesByRanks::kNever}}},
                        1 << 20,
                        {0.5, 1000, 10, 1 << 20}};
  return endpoint;
}

TEST(EndpointInfo, SurvivesPacking) {
  EXPECT_EQ(unpack(pack(full_endpoint())), full_endpoint());
  EXPECT_EQ(unpack(pack(EndpointInfo{})), EndpointInfo{});
}

TEST(JobMap, TakesTheStrictestSettingsAndSaysSo) {
  std::vector<EndpointInfo> endpoints;
  for (const char* host : {"h1", "h2", "h3"}) {
    endpoints.push_back(endpoint_on(host, {{"r0", "10.0.0.0/24"}}));
    endpoints.back().gradients = {WireType::bfloat16, WireWhere::everywhere, {1000}, 2000, {.share = 0.5}};
  }
  EXPECT_EQ(map_job(all(endpoints)).gradients, endpoints[0].gradients);
  EXPECT_TRUE(map_job(all(endpoints)).notes.empty());
  endpoints[0].deterministic = true;
  EXPECT_EQ(map_job(all(endpoints)).gradients.lazy, 0u);
  endpoints[2].gradients.wire_type = WireType::exact;
  const JobMap different = map_job(all(endpoints));
  EXPECT_EQ(different.gradients.wire_type, WireType::exact);
  EXPECT_EQ(different.notes.size(), 2u);
}

TEST(EndpointInfo, SettingsThatCannotBeAreNamed) {
  EndpointInfo endpoint = full_endpoint();
  endpoint.gradients.wire_type = static_cast<WireType>(99);
  EXPECT_NE(unpack(pack(endpoint))->trouble.find("wire_type"), std::string::npos);
  endpoint = full_endpoint();
  endpoint.gradients.wire_where = static_cast<WireWhere>(2);
  EXPECT_NE(unpack(pack(endpoint))->trouble.find("wire_where"), std::string::npos);
  endpoint = full_endpoint();
  endpoint.gradients.sparse.share = 0;
  EXPECT_NE(unpack(pack(endpoint))->trouble.find("sparse share"), std::string::npos);
}

TEST(EndpointInfo, CutOffAnywhereItNamesAField) {
  std::vector<std::byte> whole = pack(full_endpoint());
  std::set<std::string> troubles;
  for (std::size_t bytes = sizeof(int); bytes < whole.size(); ++bytes) {
    std::optional<EndpointInfo> endpoint =
        unpack({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)});
    ASSERT_TRUE(endpoint) << bytes;
    troubles.insert(endpoint->trouble);
  }
  EXPECT_EQ(troubles.size(), 25u + 8 + 6 + 4)
      << "fields of an endpoint info, its settings, a rail and an idle rail";
  EXPECT_TRUE(troubles.count("its endpoint info is damaged: field rails.probe_port is cut off"));
  whole.push_back({});
  EXPECT_EQ(unpack(whole)->trouble, "its endpoint info is damaged: 1 bytes follow the last field");
}

TEST(EndpointInfo, WithAnyByteChangedItHarmsNobody) {
  const EndpointInfo good = endpoint_on("h0", {{"r0", "10.0.0.0/24"}});
  const std::vector<std::byte> whole = pack(full_endpoint());
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (unsigned change : {1u, 0x40u, 0x80u, 0xffu}) {
      std::vector<std::byte> bytes = whole;
      bytes[at] ^= static_cast<std::byte>(change);
      std::optional<EndpointInfo> endpoint = unpack(bytes);
      if (endpoint) {
        EXPECT_EQ(unpack(pack(*endpoint)), endpoint) << "byte " << at;
        endpoint->trouble.clear();  // so that all of it is looked at
      }
      for (const auto& endpoints : {std::vector{endpoint, {good}, {good}}, {{good}, endpoint, {good}}}) {
        const JobMap job = map_job(endpoints);
        EXPECT_TRUE(!job.trouble.empty() || job.host_of_rank.size() == 3) << "byte " << at;
      }
    }
}

TEST(EndpointInfo, NumbersThatCannotBeAreNamed) {
  for (int ranks : {0, -1}) {
    EndpointInfo endpoint = endpoint_on("h1");
    endpoint.fake_hosts = {2, ranks};
    EXPECT_NE(unpack(pack(endpoint))->trouble.find("field fake_hosts"), std::string::npos);
  }
}

TEST(EndpointInfo, GarbageAndOtherVersionsAreNone) {
  EXPECT_FALSE(unpack({}));
  EXPECT_FALSE(unpack({std::byte{1}, std::byte{2}, std::byte{3}}));
  EndpointInfo endpoint = endpoint_on("h1");
  endpoint.version = kWireVersion + 1;
  EXPECT_FALSE(unpack(pack(endpoint)));
}

TEST(JobMap, RanksShareAHostWhenNameBootAndIpcNamespaceAreEqual) {
  EndpointInfo elsewhere = endpoint_on("h0");
  elsewhere.ipc = "another container";
  elsewhere.rails = endpoint_on("h0", {{"r0", "10.0.0.0/24"}}).rails;
  EndpointInfo here = endpoint_on("h0", {{"r0", "10.0.0.0/24"}});
  JobMap job_map = map_job(all({here, elsewhere, here}));
  EXPECT_EQ(job_map.trouble, "");
  EXPECT_EQ(job_map.host_of_rank, (std::vector<HostIndex>{0, 1, 0}));
  EXPECT_EQ(job_map.ranks_with(2), (std::vector<Rank>{0, 2}));
}

TEST(JobMap, RanksThatSpeakDifferentWiresAreNamed) {
  EndpointInfo tcp = endpoint_on("h0", {{"r0", "10.0.0.0/24"}}),
               ucx = endpoint_on("h1", {{"r0", "10.0.0.0/24"}});
  tcp.wire = "tcp";
  ucx.wire = "ucx";
  std::string trouble = map_job(all({tcp, ucx})).trouble;
  EXPECT_NE(trouble.find("rank 1 on h1"), std::string::npos) << trouble;
  EXPECT_NE(trouble.find("DDL_WIRE"), std::string::npos) << trouble;
  ucx.wire = "tcp";
  EXPECT_EQ(map_job(all({tcp, ucx})).trouble, "");
}

TEST(JobMap, ARankWithoutACardIsNamedAndTurnsTheEngineOff) {
  auto endpoints = all({endpoint_on("h0"), endpoint_on("h0"), endpoint_on("h0")});
  endpoints[1].reset();
  EXPECT_NE(map_job(endpoints).trouble.find("rank 1"), std::string::npos);
}

TEST(JobMap, ARankInTroubleIsNamedWithItsHost) {
  auto endpoints = all({endpoint_on("h0"), endpoint_on("h7")});
  endpoints[1]->trouble = "no memory";
  EXPECT_EQ(map_job(endpoints).trouble, "rank 1 on h7: no memory");
}

TEST(JobMap, RailsAreTheSubnetsThatEveryHostHasWhateverTheInterfacesAreCalled) {
  EndpointInfo a =
      endpoint_on("h0", {{"eth0", "10.0.0.0/24"}, {"eth1", "10.0.1.0/24"}, {"docker9", "172.17.0.0/16"}});
  EndpointInfo b = endpoint_on("h1", {{"z9", "10.0.1.0/24"}, {"a0", "10.0.0.0/24"}});
  JobMap job_map = map_job(all({a, b}));
  EXPECT_EQ(job_map.rails, (std::vector<std::string>{"10.0.0.0/24", "10.0.1.0/24"}));
  EXPECT_EQ(job_map.interface_of_rail[0], (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(job_map.interface_of_rail[1], (std::vector<std::size_t>{1, 0}));
}

TEST(JobMap, ARailIsAsFastAsItsSlowestRailAndUnknownWhereOneIs) {
  EndpointInfo a = endpoint_on("h0", {{"eth0", "10.0.0.0/24"}, {"eth1", "10.0.1.0/24"}});
  EndpointInfo b = endpoint_on("h1", {{"z9", "10.0.1.0/24"}, {"a0", "10.0.0.0/24"}});
  a.rails[0].gbit = a.rails[1].gbit = 100;
  b.rails[0].gbit = 25;
  EXPECT_EQ(map_job(all({a, b})).rail_gbit, (std::vector<double>{0, 25}));
  b.rails[1].gbit = 200;
  EXPECT_EQ(map_job(all({a, b})).rail_gbit, (std::vector<double>{100, 25}));
}

TEST(JobMap, HostsWithoutACommonSubnetTryOneRoutedRail) {
  JobMap job_map =
      map_job(all({endpoint_on("h0", {{"r0", "10.0.0.0/24"}}), endpoint_on("h1", {{"r0", "10.9.0.0/24"}})}));
  EXPECT_EQ(job_map.rails.size(), 1u);
  EXPECT_EQ(job_map.trouble, "");
}

TEST(JobMap, AHostWithoutARailIsNamed) {
  JobMap job_map = map_job(all({endpoint_on("h0", {{"r0", "10.0.0.0/24"}}), endpoint_on("h1")}));
  EXPECT_NE(job_map.trouble.find("rank 1 on h1"), std::string::npos);
}

TEST(JobMap, FakeHostsSplitOneMachineAndMustAddUp) {
  EndpointInfo endpoint = endpoint_on("h0", {{"lo", "127.0.0.0/8"}});
  endpoint.fake_hosts = {2, 1};
  JobMap job_map = map_job(all({endpoint, endpoint, endpoint}));
  EXPECT_EQ(job_map.host_of_rank, (std::vector<HostIndex>{0, 0, 1}));
  EXPECT_NE(map_job(all({endpoint, endpoint})).trouble, "");
}

TEST(JobMap, HostsOnOneKernelShareItsProcessors) {
  auto container = [](const std::string& name, std::vector<int> cpus, const std::string& kernel = "k") {
    EndpointInfo endpoint = endpoint_on(name, {{"r0", "10.0.0.0/24"}});
    endpoint.boot_id = kernel;
    endpoint.cpus = std::move(cpus);
    return endpoint;
  };
  auto shared = [](std::vector<EndpointInfo> endpoints) {
    return map_job(all(std::move(endpoints))).shared_cores;
  };
  EXPECT_EQ(shared({container("a", {0}), container("a", {1}), container("b", {0}), container("b", {1})}), 2);
  EXPECT_EQ(shared({container("a", {0, 1}), container("b", {0, 1})}), 0) << "a core each";
  EXPECT_EQ(shared({container("a", {0}, "k"), container("b", {0}, "l")}), 0) << "kernels of their own";
  EXPECT_EQ(shared({container("a", {0}), container("a", {0})}), 0) << "one host";
  EXPECT_EQ(shared({container("a", {0}, ""), container("b", {0}, "")}), 0) << "the kernel does not tell";
}

TEST(JobMap, NonblockingNeedsTheHookOnEveryRank) {
  EndpointInfo without = endpoint_on("h0");
  without.progress_hook = false;
  EXPECT_TRUE(map_job(all({endpoint_on("h0"), endpoint_on("h0")})).nonblocking);
  EXPECT_FALSE(map_job(all({endpoint_on("h0"), without})).nonblocking);
}

TEST(JobMap, RanksAreCrowdedWhenTheyOutnumberTheCoresTheyMayUseTogether) {
  EndpointInfo first = endpoint_on("h0"), second = endpoint_on("h0");
  first.cpus = {0};
  second.cpus = {1};
  EXPECT_FALSE(map_job(all({first, second})).crowded.at(0));
  EXPECT_EQ(map_job(all({first, second})).cores, std::vector{2});
  second.cpus = {0};
  EXPECT_TRUE(map_job(all({first, second})).crowded.at(0));
}

TEST(JobMap, EachHostIsCrowdedByItself) {
  auto on = [](const std::string& host) { return endpoint_on(host, {{"r0", "10.0.0.0/24"}}); };
  EndpointInfo first = on("h0"), second = on("h1"), third = on("h1");
  first.cpus = second.cpus = {0};
  third.cpus = {1};
  EXPECT_EQ(map_job(all({first, second, third})).crowded, (std::vector{false, false}))
      << "each host has cores of its own";
  third.cpus = {0};
  EXPECT_EQ(map_job(all({first, second, third})).crowded, (std::vector{false, true}));
}

}  // namespace ddl
