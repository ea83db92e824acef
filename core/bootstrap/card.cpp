#include "core/bootstrap/card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>

#include "core/bootstrap/lanes.hpp"

namespace ddl {
namespace {

using nlohmann::json;

json binary(const std::vector<std::byte>& bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return json::binary({begin, begin + bytes.size()});
}

std::vector<std::byte> bytes_of(const json& value) {
  const auto& binary_value = value.get_binary();
  const auto* begin = reinterpret_cast<const std::byte*>(binary_value.data());
  return {begin, begin + binary_value.size()};
}

Card card_from(const json& j) {
  Card card;
  card.version = j.at("version");
  card.trouble = j.at("trouble");
  card.host = j.at("host");
  card.boot_id = j.at("boot_id");
  card.ipc = j.at("ipc");
  card.pid = j.at("pid");
  card.fd = j.at("fd");
  card.bell = j.at("bell");
  card.nonce = j.at("nonce");
  card.cpus = j.at("cpus").get<std::vector<int>>();
  card.numa_node = j.at("numa_node");
  card.fake_hosts = j.at("fake_hosts").get<std::vector<int>>();
  card.progress_hook = j.at("progress_hook");
  card.staging = j.at("staging");
  card.segment = j.at("segment");
  card.report = j.at("report");
  card.options = j.at("options");
  card.tuning = j.at("tuning");
  card.cpu_model = j.at("cpu_model");
  card.deterministic = j.at("deterministic");
  card.wire = j.at("wire");
  for (const json& rail : j.at("rails"))
    card.rails.push_back({rail.at("interface"), rail.at("subnet"), bytes_of(rail.at("address")),
                          rail.at("ip"), rail.at("door"), rail.at("gbit")});
  for (const json& rail : j.at("idle_rails"))
    card.idle_rails.push_back({rail.at("interface"), rail.at("subnet"), rail.at("reason"), rail.at("asked")});
  return card;
}

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
  json rails = json::array();
  for (const RailCard& rail : card.rails)
    rails.push_back({{"interface", rail.interface},
                     {"subnet", rail.subnet},
                     {"address", binary(rail.address)},
                     {"ip", rail.ip},
                     {"door", rail.door},
                     {"gbit", rail.gbit}});
  json idle = json::array();
  for (const IdleRail& rail : card.idle_rails)
    idle.push_back({{"interface", rail.interface},
                    {"subnet", rail.subnet},
                    {"reason", rail.reason},
                    {"asked", rail.asked}});
  json j = {{"version", card.version},
            {"trouble", card.trouble},
            {"host", card.host},
            {"boot_id", card.boot_id},
            {"ipc", card.ipc},
            {"pid", card.pid},
            {"fd", card.fd},
            {"bell", card.bell},
            {"nonce", card.nonce},
            {"cpus", card.cpus},
            {"numa_node", card.numa_node},
            {"wire", card.wire},
            {"rails", rails},
            {"idle_rails", idle},
            {"fake_hosts", card.fake_hosts},
            {"progress_hook", card.progress_hook},
            {"staging", card.staging},
            {"segment", card.segment},
            {"report", card.report},
            {"options", card.options},
            {"tuning", card.tuning},
            {"cpu_model", card.cpu_model},
            {"deterministic", card.deterministic}};
  std::vector<std::uint8_t> packed = json::to_cbor(j);
  const auto* begin = reinterpret_cast<const std::byte*>(packed.data());
  return {begin, begin + packed.size()};
}

std::optional<Card> unpack(const std::vector<std::byte>& bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  json j = json::from_cbor(begin, begin + bytes.size(), true, false);
  if (!j.is_object() || !j.contains("version") || j["version"] != kWireVersion) return std::nullopt;
  try {
    return card_from(j);
  } catch (const json::exception&) {
    return std::nullopt;
  }
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
