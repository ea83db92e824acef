#include "core/bootstrap/card.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ddl {
namespace {

Card card_on(const std::string& host, std::vector<std::pair<std::string, std::string>> rails = {}) {
  Card card;
  card.host = host;
  card.boot_id = "boot-" + host;
  card.ipc = "4026531839";
  card.cpus = {0, 1};
  card.progress_hook = true;
  card.staging = 1 << 20;
  for (auto& [interface, subnet] : rails)
    card.rails.push_back({interface, subnet, {std::byte{7}, std::byte{9}}});
  return card;
}

std::vector<std::optional<Card>> all(std::vector<Card> cards) { return {cards.begin(), cards.end()}; }

}  // namespace

// Every field differs from its default and from its neighbours.
Card full_card() {
  Card card = card_on("h1", {{"r0", "10.0.0.0/24"}, {"r1", "10.0.1.0/24"}});
  card.rails[0].ip = "10.0.0.1";
  card.rails[0].door = 40'000;
  card.rails[0].gbit = 2.5;
  card.idle_rails = {{"docker0", "172.17.0.0/16", "a bridge", true}, {}};
  card.trouble = "no memory";
  card.pid = 7;
  card.fd = 8;
  card.bell = 9;
  card.nonce = ~std::uint64_t{0};
  card.numa_node = 3;
  card.wire = "tcp";
  card.fake_hosts = {2, 1};
  card.segment = Bytes{5} << 32;
  card.report = card.deterministic = true;
  card.options = "-mode b:2x2";
  card.tuning = std::string("{\0}", 3);
  card.cpu_model = "a processor";
  return card;
}

TEST(Card, SurvivesPacking) {
  EXPECT_EQ(unpack(pack(full_card())), full_card());
  EXPECT_EQ(unpack(pack(Card{})), Card{});
}

TEST(Card, CutOffAnywhereItNamesAField) {
  std::vector<std::byte> whole = pack(full_card());
  std::set<std::string> troubles;
  for (std::size_t bytes = sizeof(int); bytes < whole.size(); ++bytes) {
    std::optional<Card> card = unpack({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)});
    ASSERT_TRUE(card) << bytes;
    troubles.insert(card->trouble);
  }
  EXPECT_EQ(troubles.size(), 22u + 6 + 4) << "fields of a card, a rail and an idle rail";
  EXPECT_TRUE(troubles.count("its card is damaged: field rails.door is cut off"));
  whole.push_back({});
  EXPECT_EQ(unpack(whole)->trouble, "its card is damaged: 1 bytes follow the last field");
}

TEST(Card, WithAnyByteChangedItHarmsNobody) {
  const Card good = card_on("h0", {{"r0", "10.0.0.0/24"}});
  const std::vector<std::byte> whole = pack(full_card());
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (unsigned change : {1u, 0x40u, 0x80u, 0xffu}) {
      std::vector<std::byte> bytes = whole;
      bytes[at] ^= static_cast<std::byte>(change);
      std::optional<Card> card = unpack(bytes);
      if (card) card->trouble.clear();  // so that all of it is looked at
      take_census({card, good, good});
      take_census({good, card, good});
    }
}

TEST(Card, NumbersThatCannotBeAreNamed) {
  for (int ranks : {0, -1}) {
    Card card = card_on("h1");
    card.fake_hosts = {2, ranks};
    EXPECT_NE(unpack(pack(card))->trouble.find("field fake_hosts"), std::string::npos);
  }
}

TEST(Card, GarbageAndOtherVersionsAreNoCards) {
  EXPECT_FALSE(unpack({}));
  EXPECT_FALSE(unpack({std::byte{1}, std::byte{2}, std::byte{3}}));
  Card card = card_on("h1");
  card.version = kWireVersion + 1;
  EXPECT_FALSE(unpack(pack(card)));
}

TEST(Census, RanksShareAHostWhenNameBootAndIpcNamespaceAreEqual) {
  Card elsewhere = card_on("h0");
  elsewhere.ipc = "another container";
  elsewhere.rails = card_on("h0", {{"r0", "10.0.0.0/24"}}).rails;
  Card here = card_on("h0", {{"r0", "10.0.0.0/24"}});
  Census census = take_census(all({here, elsewhere, here}));
  EXPECT_EQ(census.trouble, "");
  EXPECT_EQ(census.host_of_rank, (std::vector<HostIndex>{0, 1, 0}));
  EXPECT_EQ(census.ranks_with(2), (std::vector<Rank>{0, 2}));
}

TEST(Census, RanksThatSpeakDifferentWiresAreNamed) {
  Card tcp = card_on("h0", {{"r0", "10.0.0.0/24"}}), ucx = card_on("h1", {{"r0", "10.0.0.0/24"}});
  tcp.wire = "tcp";
  ucx.wire = "ucx";
  std::string trouble = take_census(all({tcp, ucx})).trouble;
  EXPECT_NE(trouble.find("rank 1 on h1"), std::string::npos) << trouble;
  EXPECT_NE(trouble.find("DDL_WIRE"), std::string::npos) << trouble;
  ucx.wire = "tcp";
  EXPECT_EQ(take_census(all({tcp, ucx})).trouble, "");
}

TEST(Census, ARankWithoutACardIsNamedAndTurnsTheEngineOff) {
  auto cards = all({card_on("h0"), card_on("h0"), card_on("h0")});
  cards[1].reset();
  EXPECT_NE(take_census(cards).trouble.find("rank 1"), std::string::npos);
}

TEST(Census, ARankInTroubleIsNamedWithItsHost) {
  auto cards = all({card_on("h0"), card_on("h7")});
  cards[1]->trouble = "no memory";
  EXPECT_EQ(take_census(cards).trouble, "rank 1 on h7: no memory");
}

TEST(Census, LanesAreTheSubnetsThatEveryHostHasWhateverTheInterfacesAreCalled) {
  Card a = card_on("h0", {{"eth0", "10.0.0.0/24"}, {"eth1", "10.0.1.0/24"}, {"docker9", "172.17.0.0/16"}});
  Card b = card_on("h1", {{"z9", "10.0.1.0/24"}, {"a0", "10.0.0.0/24"}});
  Census census = take_census(all({a, b}));
  EXPECT_EQ(census.lanes, (std::vector<std::string>{"10.0.0.0/24", "10.0.1.0/24"}));
  EXPECT_EQ(census.rail_of_lane[0], (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(census.rail_of_lane[1], (std::vector<std::size_t>{1, 0}));
}

TEST(Census, ALaneIsAsFastAsItsSlowestRailAndUnknownWhereOneIs) {
  Card a = card_on("h0", {{"eth0", "10.0.0.0/24"}, {"eth1", "10.0.1.0/24"}});
  Card b = card_on("h1", {{"z9", "10.0.1.0/24"}, {"a0", "10.0.0.0/24"}});
  a.rails[0].gbit = a.rails[1].gbit = 100;
  b.rails[0].gbit = 25;
  EXPECT_EQ(take_census(all({a, b})).lane_gbit, (std::vector<double>{0, 25}));
  b.rails[1].gbit = 200;
  EXPECT_EQ(take_census(all({a, b})).lane_gbit, (std::vector<double>{100, 25}));
}

TEST(Census, HostsWithoutACommonSubnetTryOneRoutedLane) {
  Census census =
      take_census(all({card_on("h0", {{"r0", "10.0.0.0/24"}}), card_on("h1", {{"r0", "10.9.0.0/24"}})}));
  EXPECT_EQ(census.lanes.size(), 1u);
  EXPECT_EQ(census.trouble, "");
}

TEST(Census, AHostWithoutARailIsNamed) {
  Census census = take_census(all({card_on("h0", {{"r0", "10.0.0.0/24"}}), card_on("h1")}));
  EXPECT_NE(census.trouble.find("rank 1 on h1"), std::string::npos);
}

TEST(Census, FakeHostsSplitOneMachineAndMustAddUp) {
  Card card = card_on("h0", {{"lo", "127.0.0.0/8"}});
  card.fake_hosts = {2, 1};
  Census census = take_census(all({card, card, card}));
  EXPECT_EQ(census.host_of_rank, (std::vector<HostIndex>{0, 0, 1}));
  EXPECT_NE(take_census(all({card, card})).trouble, "");
}

TEST(Census, HostsOnOneKernelShareItsProcessors) {
  auto container = [](const std::string& name, std::vector<int> cpus, const std::string& kernel = "k") {
    Card card = card_on(name, {{"r0", "10.0.0.0/24"}});
    card.boot_id = kernel;
    card.cpus = std::move(cpus);
    return card;
  };
  auto shared = [](std::vector<Card> cards) { return take_census(all(std::move(cards))).shared_cores; };
  EXPECT_EQ(shared({container("a", {0}), container("a", {1}), container("b", {0}), container("b", {1})}), 2);
  EXPECT_EQ(shared({container("a", {0, 1}), container("b", {0, 1})}), 0) << "a core each";
  EXPECT_EQ(shared({container("a", {0}, "k"), container("b", {0}, "l")}), 0) << "kernels of their own";
  EXPECT_EQ(shared({container("a", {0}), container("a", {0})}), 0) << "one host";
  EXPECT_EQ(shared({container("a", {0}, ""), container("b", {0}, "")}), 0) << "the kernel does not tell";
}

TEST(Census, NonblockingNeedsTheHookOnEveryRank) {
  Card without = card_on("h0");
  without.progress_hook = false;
  EXPECT_TRUE(take_census(all({card_on("h0"), card_on("h0")})).nonblocking);
  EXPECT_FALSE(take_census(all({card_on("h0"), without})).nonblocking);
}

TEST(Census, RanksAreCrowdedWhenTheyOutnumberTheCoresTheyMayUseTogether) {
  Card first = card_on("h0"), second = card_on("h0");
  first.cpus = {0};
  second.cpus = {1};
  EXPECT_FALSE(is_crowded({first, second}));
  second.cpus = {0};
  EXPECT_TRUE(is_crowded({first, second}));
}

}  // namespace ddl
