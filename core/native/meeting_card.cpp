#include "core/native/meeting_card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/base/error.hpp"
#include "core/tune/ddl_options.hpp"

namespace ddl {
namespace {

using nlohmann::json;

std::vector<MeetingCard> read_all(const std::vector<std::vector<std::byte>>& blobs) {
  std::vector<MeetingCard> cards;
  for (const std::vector<std::byte>& blob : blobs) {
    std::optional<MeetingCard> card = unpack_meeting_card(blob);
    if (!card)
      throw Error(fmt::format("rank {} runs another version of the engine", cards.size()),
                  "the ranks of a communicator must speak the same language",
                  "preload the same library everywhere");
    cards.push_back(*std::move(card));
  }
  return cards;
}

std::string why_ours(const std::vector<MeetingCard>& cards) {
  std::map<std::string, std::size_t> rank_on;
  std::string why;
  for (std::size_t rank = 0; rank < cards.size() && why.empty(); ++rank) {
    auto [first, is_new] = rank_on.try_emplace(cards[rank].device, rank);
    if (!cards[rank].has_original) why = fmt::format("rank {} has no NCCL library", rank);
    if (why.empty() && !is_new)
      why = fmt::format("ranks {} and {} share a GPU, which NCCL refuses", first->second, rank);
  }
  return why;
}

std::vector<HostIndex> hosts_of(const std::vector<MeetingCard>& cards) {
  std::vector<HostIndex> host_of_rank;
  const std::vector<int>& fake = cards[0].fake_hosts;
  if (std::accumulate(fake.begin(), fake.end(), std::size_t{0}) == cards.size()) {
    for (std::size_t h = 0; h < fake.size(); ++h)
      host_of_rank.insert(host_of_rank.end(), static_cast<std::size_t>(fake[h]), static_cast<HostIndex>(h));
    return host_of_rank;
  }
  std::map<std::string, HostIndex> known;
  for (const MeetingCard& card : cards)
    host_of_rank.push_back(known.try_emplace(card.host, static_cast<HostIndex>(known.size())).first->second);
  return host_of_rank;
}

DdlOptions options_of(const std::vector<MeetingCard>& cards, std::string& trouble) {
  try {
    return parse_ddl_options(cards[0].options, static_cast<Rank>(cards.size()));
  } catch (const UsageError& error) {
    trouble = error.what();
    return {};
  }
}

// The first is taken where nothing is measured, and until something is.
std::vector<CompanionWay> ways_of(const Grid& grid, bool whole, bool rails) {
  std::vector<CompanionWay> ways;
  const bool inside = why_no_companion(grid, false).empty();
  if (whole || !inside) ways.push_back(CompanionWay::whole);
  if (inside) ways.push_back(CompanionWay::nccl);
  if (rails) ways.push_back(CompanionWay::rails);
  return ways;
}

// Whether all-reduces have a plan here. The mode comes first: who did not ask for plans needs no other
// reason.
void plan(const std::vector<MeetingCard>& cards, MeetingOutcome& outcome) {
  DdlOptions options = options_of(cards, outcome.trouble);
  if (options.mode != Mode::blue && options.mode != Mode::pick) {
    outcome.why_flat =
        fmt::format("plans come with the modes p and b, the mode is {}", static_cast<char>(options.mode));
    return;
  }
  const bool picks = options.mode == Mode::pick, measures = !cards[0].deterministic;
  if (picks && !measures) {
    outcome.why_flat = "with DDL_DETERMINISTIC=1 nothing is measured, and plans come with -mode b";
    return;
  }
  for (std::size_t rank = 0; rank < cards.size() && outcome.why_flat.empty(); ++rank)
    if (!cards[rank].can_split)
      outcome.why_flat = fmt::format("rank {} has a nonblocking communicator, or an NCCL before 2.18", rank);
  if (!outcome.why_flat.empty()) return;
  outcome.host_of_rank = hosts_of(cards);
  Grid grid = grid_of(options, outcome.host_of_rank);
  auto by_sockets = [](const MeetingCard& card) { return card.by_sockets; };
  const bool rails =
      measures && rails_can_be_last(grid) && std::all_of(cards.begin(), cards.end(), by_sockets);
  outcome.why_flat = why_no_companion(grid, rails);
  outcome.segment = cards[0].segment;
  if (!outcome.why_flat.empty()) return;
  outcome.ways = ways_of(grid, picks, rails);
  outcome.grid = std::move(grid);
}

}  // namespace

std::vector<std::byte> pack(const MeetingCard& card) {
  auto binary = [](const std::string& text) {
    return json::binary(std::vector<std::uint8_t>(text.begin(), text.end()));
  };
  std::vector<std::uint8_t> packed = json::to_cbor({{"version", card.version},
                                                    {"has_original", card.has_original},
                                                    {"can_split", card.can_split},
                                                    {"by_sockets", card.by_sockets},
                                                    {"device", binary(card.device)},
                                                    {"host", binary(card.host)},
                                                    {"options", binary(card.options)},
                                                    {"deterministic", card.deterministic},
                                                    {"fake_hosts", card.fake_hosts},
                                                    {"segment", card.segment}});
  const auto* begin = reinterpret_cast<const std::byte*>(packed.data());
  return {begin, begin + packed.size()};
}

std::optional<MeetingCard> unpack_meeting_card(const std::vector<std::byte>& bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  json j = json::from_cbor(begin, begin + bytes.size(), true, false);
  auto text = [&j](const char* name) {
    const auto& binary = j.at(name).get_binary();
    return std::string(binary.begin(), binary.end());
  };
  try {
    if (!j.is_object() || j.at("version") != kWireVersion) return std::nullopt;
    return MeetingCard{kWireVersion,       j.at("has_original"), j.at("can_split"), j.at("by_sockets"),
                       text("device"),     text("host"),         text("options"),   j.at("deterministic"),
                       j.at("fake_hosts"), j.at("segment")};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

bool MeetingOutcome::splits_meet() const {
  return why_ours.empty() && std::set<HostIndex>(host_of_rank.begin(), host_of_rank.end()).size() > 1;
}

MeetingOutcome conclude(const std::vector<std::vector<std::byte>>& blobs) {
  std::vector<MeetingCard> cards = read_all(blobs);
  MeetingOutcome outcome;
  outcome.why_ours = why_ours(cards);
  if (outcome.why_ours.empty()) plan(cards, outcome);
  return outcome;
}

}  // namespace ddl
