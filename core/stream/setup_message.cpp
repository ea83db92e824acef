#include "core/stream/setup_message.hpp"

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

std::vector<SetupMessage> read_all(const std::vector<std::vector<std::byte>>& blobs) {
  std::vector<SetupMessage> messages;
  for (const std::vector<std::byte>& blob : blobs) {
    std::optional<SetupMessage> message = unpack_setup_message(blob);
    if (!message)
      throw Error(fmt::format("rank {} runs another version of the engine", messages.size()),
                  "the ranks of a communicator must speak the same language",
                  "preload the same library everywhere");
    messages.push_back(*std::move(message));
  }
  return messages;
}

std::string why_ours(const std::vector<SetupMessage>& messages) {
  std::map<std::string, std::size_t> rank_on;
  std::string why;
  for (std::size_t rank = 0; rank < messages.size() && why.empty(); ++rank) {
    auto [first, is_new] = rank_on.try_emplace(messages[rank].device, rank);
    if (!messages[rank].has_original) why = fmt::format("rank {} has no NCCL library", rank);
    if (why.empty() && !is_new)
      why = fmt::format("ranks {} and {} share a GPU, which NCCL refuses", first->second, rank);
  }
  return why;
}

std::vector<HostIndex> hosts_of(const std::vector<SetupMessage>& messages) {
  std::vector<HostIndex> host_of_rank;
  const std::vector<int>& fake = messages[0].fake_hosts;
  if (std::accumulate(fake.begin(), fake.end(), std::size_t{0}) == messages.size()) {
    for (std::size_t h = 0; h < fake.size(); ++h)
      host_of_rank.insert(host_of_rank.end(), static_cast<std::size_t>(fake[h]), static_cast<HostIndex>(h));
    return host_of_rank;
  }
  std::map<std::string, HostIndex> known;
  for (const SetupMessage& message : messages)
    host_of_rank.push_back(
        known.try_emplace(message.host, static_cast<HostIndex>(known.size())).first->second);
  return host_of_rank;
}

DdlOptions options_of(const std::vector<SetupMessage>& messages, std::string& trouble) {
  try {
    return parse_ddl_options(messages[0].options, static_cast<Rank>(messages.size()));
  } catch (const UsageError& error) {
    trouble = error.what();
    return {};
  }
}

// The first is taken where nothing is measured, and until something is.
std::vector<HierarchyRoute> routes_of(const Grid& grid, bool whole, bool rails) {
  std::vector<HierarchyRoute> routes;
  const bool inside = why_no_hierarchy(grid, false).empty();
  if (whole || !inside) routes.push_back(HierarchyRoute::whole);
  if (inside) routes.push_back(HierarchyRoute::nccl);
  if (rails) routes.push_back(HierarchyRoute::rails);
  return routes;
}

// Whether all-reduces have a plan here. The mode comes first: who did not ask for plans needs no other
// reason.
void plan(const std::vector<SetupMessage>& messages, SetupOutcome& outcome) {
  DdlOptions options = options_of(messages, outcome.trouble);
  if (options.mode != Mode::blue && options.mode != Mode::pick) {
    outcome.why_flat =
        fmt::format("plans come with the modes p and b, the mode is {}", static_cast<char>(options.mode));
    return;
  }
  const bool picks = options.mode == Mode::pick, measures = !messages[0].deterministic;
  if (picks && !measures) {
    outcome.why_flat = "with DDL_DETERMINISTIC=1 nothing is measured, and plans come with -mode b";
    return;
  }
  for (std::size_t rank = 0; rank < messages.size() && outcome.why_flat.empty(); ++rank)
    if (!messages[rank].can_split)
      outcome.why_flat = fmt::format("rank {} has a nonblocking communicator, or an NCCL before 2.18", rank);
  if (!outcome.why_flat.empty()) return;
  outcome.host_of_rank = hosts_of(messages);
  Grid grid = grid_of(options, outcome.host_of_rank);
  auto by_sockets = [](const SetupMessage& message) { return message.by_sockets; };
  const bool rails =
      measures && rails_can_be_last(grid) && std::all_of(messages.begin(), messages.end(), by_sockets);
  outcome.why_flat = why_no_hierarchy(grid, rails);
  outcome.segment = messages[0].segment;
  if (!outcome.why_flat.empty()) return;
  outcome.routes = routes_of(grid, picks, rails);
  outcome.grid = std::move(grid);
}

}  // namespace

std::vector<std::byte> pack(const SetupMessage& message) {
  auto binary = [](const std::string& text) {
    return json::binary(std::vector<std::uint8_t>(text.begin(), text.end()));
  };
  std::vector<std::uint8_t> packed = json::to_cbor({{"version", message.version},
                                                    {"has_original", message.has_original},
                                                    {"can_split", message.can_split},
                                                    {"by_sockets", message.by_sockets},
                                                    {"device", binary(message.device)},
                                                    {"host", binary(message.host)},
                                                    {"options", binary(message.options)},
                                                    {"deterministic", message.deterministic},
                                                    {"fake_hosts", message.fake_hosts},
                                                    {"segment", message.segment}});
  const auto* begin = reinterpret_cast<const std::byte*>(packed.data());
  return {begin, begin + packed.size()};
}

std::optional<SetupMessage> unpack_setup_message(const std::vector<std::byte>& bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  json j = json::from_cbor(begin, begin + bytes.size(), true, false);
  auto text = [&j](const char* name) {
    const auto& binary = j.at(name).get_binary();
    return std::string(binary.begin(), binary.end());
  };
  try {
    if (!j.is_object() || j.at("version") != kWireVersion) return std::nullopt;
    return SetupMessage{kWireVersion,       j.at("has_original"), j.at("can_split"), j.at("by_sockets"),
                        text("device"),     text("host"),         text("options"),   j.at("deterministic"),
                        j.at("fake_hosts"), j.at("segment")};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

bool SetupOutcome::splits_may_have_plans() const {
  return why_ours.empty() && std::set<HostIndex>(host_of_rank.begin(), host_of_rank.end()).size() > 1;
}

SetupOutcome conclude(const std::vector<std::vector<std::byte>>& blobs) {
  std::vector<SetupMessage> messages = read_all(blobs);
  SetupOutcome outcome;
  outcome.why_ours = why_ours(messages);
  if (outcome.why_ours.empty()) plan(messages, outcome);
  return outcome;
}

}  // namespace ddl
