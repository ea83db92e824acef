// What every rank of a large job concludes at its start, from endpoint infos that nobody has: how long that
// takes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <utility>

#include "core/base/clock.hpp"
#include "core/session/limits.hpp"

namespace ddl {
namespace {

constexpr int kCoresOfRank = 14, kRails = 4;

// Hosts with private networks beside the rails, as containers make them.
EndpointInfo endpoint_of(Rank rank, int ranks_per_host) {
  const int host = rank / ranks_per_host, local = rank % ranks_per_host;
  EndpointInfo endpoint;
  endpoint.host = fmt::format("node{:04}.cluster.example.org", host);
  endpoint.boot_id = fmt::format("7f0c6cbc-8f0b-4f6e-9d2e-{:012x}", host);
  endpoint.ipc = "4026531839";
  endpoint.pid = 10'000 + rank;
  endpoint.fd = 40;
  endpoint.nonce = static_cast<std::uint64_t>(rank) * 0x9e3779b97f4a7c15u;
  for (int core = 0; core < kCoresOfRank; ++core) endpoint.cpus.push_back(local * kCoresOfRank + core);
  endpoint.numa_node = local / 4;
  endpoint.progress_hook = true;
  endpoint.staging = 64 << 20;
  endpoint.wire = "tcp";
  for (int rail = 0; rail < kRails; ++rail) {
    const std::string ip = fmt::format("10.{}.{}.{}", rail, host / 250, host % 250 + 1);
    endpoint.rails.push_back({fmt::format("ens{}f0", rail), fmt::format("10.{}.0.0/16", rail),
                              std::vector<std::byte>(20), ip, 40'000, 100});
  }
  endpoint.rails.push_back(
      {"priv0", fmt::format("172.{}.{}.0/24", host / 250, host % 250), {}, "172.1.1.1", 1, 1});
  endpoint.idle_rails = {{"docker0", "172.17.0.0/16", "a bridge", false},
                         {"eno2", "", "has no carrier", false}};
  return endpoint;
}

}  // namespace

// The budget of a job of 4096 ranks is half a second for all of this; no assertion, as the machine may be
// busy.
TEST(ConcludeScale, FourThousandCardsAreUnpackedAndConcludedFrom) {
  for (auto [ranks, ranks_per_host] : {std::pair(512, 8), std::pair(4096, 8), std::pair(4096, 1)}) {
    std::vector<std::vector<std::byte>> packed;
    for (Rank rank = 0; rank < ranks; ++rank) packed.push_back(pack(endpoint_of(rank, ranks_per_host)));
    const Nanoseconds began = now();
    std::vector<std::optional<EndpointInfo>> endpoints;
    endpoints.reserve(packed.size());
    for (const auto& bytes : packed) endpoints.push_back(unpack(bytes));
    const Nanoseconds unpacked = now();
    const JobMap job_map = map_job(endpoints);
    const PlanLimits limits = limits_of(job_map);
    const Nanoseconds concluded = now();
    EXPECT_EQ(job_map.trouble, "");
    EXPECT_EQ(job_map.hosts(), ranks / ranks_per_host);
    EXPECT_EQ(limits.rails, kRails);
    std::printf(
        "%d endpoints of %d hosts, %zu bytes each: unpacked in %.0f ms, a conclusion from them in %.0f ms\n",
        ranks, job_map.hosts(), packed[0].size(), static_cast<double>(unpacked - began) / 1e6,
        static_cast<double>(concluded - unpacked) / 1e6);
  }
}

}  // namespace ddl
