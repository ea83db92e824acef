#include "core/bootstrap/card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>

#include "core/base/packing.hpp"
#include "core/bootstrap/lanes.hpp"

namespace ddl {

template <class Any, class One>
concept IsA = std::is_same_v<std::remove_const_t<Any>, One>;

// What travels of each, in this order; a card's version must be the first.
void each_field(IsA<RailCard> auto& rail, auto& visit) {
  visit("interface", rail.interface);
  visit("subnet", rail.subnet);
  visit("address", rail.address);
  visit("ip", rail.ip);
  visit("door", rail.door);
  visit("gbit", rail.gbit);
}

void each_field(IsA<IdleRail> auto& rail, auto& visit) {
  visit("interface", rail.interface);
  visit("subnet", rail.subnet);
  visit("reason", rail.reason);
  visit("asked", rail.asked);
}

void each_field(IsA<Card> auto& card, auto& visit) {
  visit("version", card.version);
  visit("trouble", card.trouble);
  visit("host", card.host);
  visit("boot_id", card.boot_id);
  visit("ipc", card.ipc);
  visit("pid", card.pid);
  visit("fd", card.fd);
  visit("bell", card.bell);
  visit("nonce", card.nonce);
  visit("cpus", card.cpus);
  visit("numa_node", card.numa_node);
  visit("wire", card.wire);
  visit("rails", card.rails);
  visit("idle_rails", card.idle_rails);
  visit("fake_hosts", card.fake_hosts);
  visit("progress_hook", card.progress_hook);
  visit("staging", card.staging);
  visit("segment", card.segment);
  visit("report", card.report);
  visit("options", card.options);
  visit("tuning", card.tuning);
  visit("cpu_model", card.cpu_model);
  visit("deterministic", card.deterministic);
}

namespace {

constexpr int kMostRanksOfHost = 1 << 20;
// What DDL_SEGMENT_BYTES may ask for; a message must stay far below 2^32 bytes.
constexpr Bytes kLeastSegment = 64 << 10, kLargestSegment = 64 << 20;

// "ranks 3, 4 and 7 more"
std::string list_of(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > 8) text += fmt::format(" and {} more", ranks.size() - 8);
  return text;
}

std::string trouble_in(const std::vector<std::optional<Card>>& cards) {
  std::vector<Rank> absent;
  for (std::size_t r = 0; r < cards.size(); ++r)
    if (!cards[r]) absent.push_back(static_cast<Rank>(r));
  if (!absent.empty())
    return fmt::format(
        "{} did not load the engine (libddl_shim.so or libddl.so missing there, or another version)",
        list_of(absent));
  for (std::size_t r = 0; r < cards.size(); ++r)
    if (!cards[r]->trouble.empty())
      return fmt::format("rank {} on {}: {}", r, cards[r]->host, cards[r]->trouble);
  return {};
}

// Who shares a host: as told by DDL_FAKE_HOSTS, else by equal host name, boot id and IPC namespace.
std::string find_hosts(const std::vector<Card>& cards, Census& census) {
  const std::vector<int>& fake = cards[0].fake_hosts;
  if (!fake.empty()) {
    if (std::accumulate(fake.begin(), fake.end(), std::size_t{0}) != cards.size())
      return fmt::format("DDL_FAKE_HOSTS describes {} ranks, the job has {}",
                         std::accumulate(fake.begin(), fake.end(), 0), cards.size());
    for (std::size_t h = 0; h < fake.size(); ++h) {
      census.host_of_rank.insert(census.host_of_rank.end(), static_cast<std::size_t>(fake[h]),
                                 static_cast<HostIndex>(h));
      census.host_names.push_back(fmt::format("{}#{}", cards[0].host, h));
    }
    return {};
  }
  std::map<std::string, HostIndex> known;
  for (const Card& card : cards) {
    auto [host, is_new] = known.try_emplace(text_of(card), static_cast<HostIndex>(known.size()));
    if (is_new) census.host_names.push_back(card.host);
    census.host_of_rank.push_back(host->second);
  }
  return {};
}

// Containers and virtual networks: what sets their hosts apart does not give them processors of their own.
int find_shared_cores(const std::vector<Card>& cards, const Census& census) {
  std::map<std::string, std::vector<std::size_t>> ranks_of_kernel;
  for (std::size_t r = 0; r < cards.size(); ++r) ranks_of_kernel[cards[r].boot_id].push_back(r);
  int least = 0;
  for (const auto& [boot_id, ranks] : ranks_of_kernel) {
    const HostIndex first = census.host_of_rank[ranks[0]];
    auto is_there = [&](std::size_t r) { return census.host_of_rank[r] == first; };
    // Most kernels have one host: their CPUs need no counting.
    if (boot_id.empty() || std::all_of(ranks.begin(), ranks.end(), is_there)) continue;
    std::set<int> cpus;
    for (std::size_t r : ranks) cpus.insert(cards[r].cpus.begin(), cards[r].cpus.end());
    const int cores = static_cast<int>(cpus.size());
    if (cores > 0 && ranks.size() > cpus.size()) least = least ? std::min(least, cores) : cores;
  }
  return least;
}

}  // namespace

std::vector<std::byte> pack(const Card& card) {
  Packer packer;
  each_field(card, packer);
  return packer.take();
}

std::optional<Card> unpack(const std::vector<std::byte>& bytes) {
  int version = 0;
  if (bytes.size() >= sizeof(version)) std::memcpy(&version, bytes.data(), sizeof(version));
  if (version != kWireVersion) return std::nullopt;
  Card card;
  try {
    Unpacker unpacker(bytes);
    each_field(card, unpacker);
    unpacker.finish();
    for (int ranks : card.fake_hosts)
      if (ranks < 1 || ranks > kMostRanksOfHost)
        throw Error("field fake_hosts holds a number that is none of ranks");
  } catch (const Error& error) {
    Card damaged;
    damaged.host = card.host;
    damaged.trouble = fmt::format("its card is damaged: {}", error.what());
    return damaged;
  }
  return card;
}

std::vector<Rank> Census::ranks_with(Rank rank) const {
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < host_of_rank.size(); ++r)
    if (host_of_rank[r] == host_of_rank[static_cast<std::size_t>(rank)])
      ranks.push_back(static_cast<Rank>(r));
  return ranks;
}

std::vector<Rank> Census::leaders() const {
  std::vector<Rank> first(host_names.size(), -1);
  for (std::size_t r = 0; r < host_of_rank.size(); ++r)
    if (Rank& leader = first[static_cast<std::size_t>(host_of_rank[r])]; leader < 0)
      leader = static_cast<Rank>(r);
  return first;
}

void Census::keep_lanes(const std::vector<bool>& keep) {
  auto sift = [&](auto& values) {
    std::remove_reference_t<decltype(values)> kept;
    for (std::size_t lane = 0; lane < values.size(); ++lane)
      if (keep[lane]) kept.push_back(values[lane]);
    values = std::move(kept);
  };
  sift(lanes);
  sift(lane_gbit);
  for (auto& rails : rail_of_lane) sift(rails);
}

Census take_census(const std::vector<std::optional<Card>>& maybe) {
  Census census;
  census.trouble = trouble_in(maybe);
  if (!census.trouble.empty()) return census;
  std::vector<Card> cards;
  for (const auto& card : maybe) cards.push_back(*card);
  census.nonblocking =
      std::all_of(cards.begin(), cards.end(), [](const Card& card) { return card.progress_hook; });
  census.staging = cards[0].staging;
  for (const Card& card : cards) {
    census.staging = std::min(census.staging, card.staging);
    census.numa_of_rank.push_back(card.numa_node);
  }
  census.segment = cards[0].segment ? std::clamp(cards[0].segment, kLeastSegment, kLargestSegment) : 0;
  census.report = cards[0].report;
  census.options = cards[0].options;
  census.tuning = cards[0].tuning;
  census.deterministic = cards[0].deterministic;
  census.trouble = find_hosts(cards, census);
  if (census.trouble.empty()) census.trouble = find_lanes(cards, census);
  if (census.trouble.empty()) census.shared_cores = find_shared_cores(cards, census);
  return census;
}

bool is_crowded(const std::vector<Card>& cards_of_host) {
  std::set<int> cpus;
  for (const Card& card : cards_of_host) cpus.insert(card.cpus.begin(), card.cpus.end());
  return cards_of_host.size() > cpus.size();
}

}  // namespace ddl
