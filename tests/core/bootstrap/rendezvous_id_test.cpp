#include "core/bootstrap/rendezvous_id.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace ddl {
namespace {

std::array<std::byte, RendezvousId::kBytes> copy_of(const RendezvousId& id) {
  std::array<std::byte, RendezvousId::kBytes> bytes;
  std::ranges::copy(id.bytes(), bytes.begin());
  return bytes;
}

}  // namespace

TEST(RendezvousId, SurvivesTheJourneyAs128Bytes) {
  RendezvousId id = RendezvousId::make(4711, {parse_address("10.1.2.3"), parse_address("fd00::7")});
  auto bytes = copy_of(id);
  EXPECT_TRUE(RendezvousId::is_ours(bytes));
  std::optional<RendezvousId> copy = RendezvousId::from(bytes);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->token, id.token);
  EXPECT_EQ(copy->port, 4711);
  EXPECT_EQ(copy->addresses, 2);
  EXPECT_EQ((Endpoint{copy->address[0], copy->port}.text()), "10.1.2.3:4711");
  EXPECT_EQ((Endpoint{copy->address[1], copy->port}.text()), "[fd00::7]:4711");
}

TEST(RendezvousId, PartsMeetAtTheSamePlaceInOtherSubgroups) {
  RendezvousId id = RendezvousId::make(4711, {parse_address("10.1.2.3")});
  RendezvousId part = RendezvousId::from(copy_of(id.part(1, 5))).value();
  EXPECT_EQ(part.token, id.token);
  EXPECT_EQ(part.port, id.port);
  EXPECT_EQ(part.subgroup, id.part(1, 5).subgroup);
  std::set<std::uint64_t> subgroups = {id.subgroup,
                                       part.subgroup,
                                       id.part(1, 6).subgroup,
                                       id.part(2, 5).subgroup,
                                       id.part(15, 0).subgroup,
                                       part.part(1, 5).subgroup};
  EXPECT_EQ(subgroups.size(), 6u);
}

TEST(RendezvousId, OtherBytesAreNotOurs) {
  std::array<std::byte, RendezvousId::kBytes> zeros{};
  EXPECT_FALSE(RendezvousId::is_ours(zeros));
  auto bytes = copy_of(RendezvousId::make(1, {}));
  bytes[7] ^= std::byte{1};
  EXPECT_FALSE(RendezvousId::is_ours(bytes)) << "another version";
  RendezvousId broken = RendezvousId::make(1, {});
  broken.addresses = 5;
  EXPECT_FALSE(RendezvousId::is_ours(copy_of(broken)));
}

TEST(RendezvousId, EveryIdHasAnotherToken) {
  EXPECT_NE(RendezvousId::make(1, {}).token, RendezvousId::make(1, {}).token);
}

TEST(RendezvousId, RanksThatShareTheLoopbackTryItFirstAndOthersNever) {
  RendezvousId id = RendezvousId::make(1, {parse_address("10.1.2.3")});
  EXPECT_EQ(id.places().front(), parse_address("127.0.0.1"));
  EXPECT_EQ(id.places().back(), parse_address("10.1.2.3"));
  id.host ^= 1;
  EXPECT_EQ(id.places(), std::vector{parse_address("10.1.2.3")});
}

TEST(RendezvousId, MoreAddressesThanFitAreLeftOut) {
  std::vector<IpAddress> many(9, parse_address("10.0.0.1"));
  EXPECT_EQ(RendezvousId::make(1, many).addresses, RendezvousId::kMaxAddresses);
}

TEST(RendezvousId, ThisHostIsReachableUnderAtLeastOne) {
  std::vector<IpAddress> addresses = reachable_addresses({});
  ASSERT_FALSE(addresses.empty());
  for (const IpAddress& address : addresses) EXPECT_NE(address.family, 0);
  EXPECT_EQ(reachable_addresses({"lo"}).front(), parse_address("127.0.0.1")) << "a wish overrides the kind";
}

}  // namespace ddl
