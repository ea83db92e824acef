#include "core/bootstrap/lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace ddl {
namespace {

constexpr std::size_t kMostLanes = 32;

std::size_t rail_in(const Card& card, const std::string& subnet) {
  auto at = std::find_if(card.rails.begin(), card.rails.end(),
                         [&](const RailCard& rail) { return rail.subnet == subnet; });
  return static_cast<std::size_t>(at - card.rails.begin());
}

std::string reasons_of(const Card& card) {
  std::string text;
  for (const IdleRail& rail : card.idle_rails)
    text += fmt::format("{}{}: {}", text.empty() ? " (" : ", ", rail.interface, rail.reason);
  return text.empty() ? text : text + ")";
}

std::string trouble_with_rails(const std::vector<Card>& cards) {
  for (std::size_t r = 0; r < cards.size(); ++r)
    if (cards[r].rails.empty())
      return fmt::format("rank {} on {} has no usable network interface between hosts{}", r, cards[r].host,
                         reasons_of(cards[r]));
  for (std::size_t r = 0; r < cards.size(); ++r)
    if (cards[r].wire != cards[0].wire)
      return fmt::format("rank {} on {} speaks {} between hosts and rank 0 {}; set DDL_WIRE alike everywhere",
                         r, cards[r].host, cards[r].wire, cards[0].wire);
  return {};
}

double slowest_in(const std::vector<Card>& cards, const Census& census, std::size_t lane) {
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < cards.size(); ++r)
    slowest = std::min(slowest, cards[r].rails[census.rail_of_lane[r][lane]].gbit);
  return slowest;
}

// Two hosts with one address, as private networks of virtual machines have: "" when there are none.
std::string same_address(const std::vector<Card>& cards, const std::vector<Rank>& leaders,
                         const std::string& subnet) {
  std::map<std::string, std::string> host_at;
  for (Rank leader : leaders) {
    const Card& card = cards[static_cast<std::size_t>(leader)];
    const std::string& ip = card.rails[rail_in(card, subnet)].ip;
    if (ip.empty()) continue;
    auto [known, is_new] = host_at.try_emplace(ip, card.host);
    if (!is_new)
      return fmt::format("network {} is not used ({} and {} both are {} in it)", subnet, known->second,
                         card.host, known->first);
  }
  return {};
}

// What the hosts have as rails: all interfaces, all networks.
struct RailsInUse {
  std::set<std::string> interfaces, subnets;

  RailsInUse(const std::vector<Card>& cards, const std::vector<Rank>& leaders) {
    for (Rank leader : leaders)
      for (const RailCard& rail : cards[static_cast<std::size_t>(leader)].rails) {
        interfaces.insert(rail.interface);
        subnets.insert(rail.subnet);
      }
  }
};

// Somebody else has this rail, or the user asked for it: that it is idle here costs speed.
bool is_missed(const IdleRail& idle, const RailsInUse& in_use) {
  return idle.asked || in_use.interfaces.count(idle.interface) > 0 ||
         (!idle.subnet.empty() && in_use.subnets.count(idle.subnet) > 0);
}

// "h1, h3, h4 and 7 more"
std::string list_of(const std::vector<std::string>& hosts) {
  std::string text = hosts[0];
  for (std::size_t h = 1; h < hosts.size() && h < 3; ++h) text += ", " + hosts[h];
  return hosts.size() > 3 ? text + fmt::format(" and {} more", hosts.size() - 3) : text;
}

// "rail r1 of h1, h3 and 7 more is not used (down)": one line per interface and reason.
std::vector<std::string> notes_on_missed(const std::vector<Card>& cards, const std::vector<Rank>& leaders) {
  const RailsInUse in_use(cards, leaders);
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> hosts_with;
  for (Rank leader : leaders)
    for (const IdleRail& idle : cards[static_cast<std::size_t>(leader)].idle_rails)
      if (is_missed(idle, in_use))
        hosts_with[{idle.interface, idle.reason}].push_back(cards[static_cast<std::size_t>(leader)].host);
  std::vector<std::string> notes;
  for (const auto& [rail, hosts] : hosts_with)
    notes.push_back(fmt::format("rail {} of {} is not used ({})", rail.first, list_of(hosts), rail.second));
  return notes;
}

// Why a host lacks it has been said.
bool is_idle_in(const Card& card, const RailCard& rail) {
  return std::any_of(card.idle_rails.begin(), card.idle_rails.end(), [&](const IdleRail& idle) {
    return idle.subnet == rail.subnet || idle.interface == rail.interface;
  });
}

bool has_interface(const Card& card, const std::string& name) {
  return std::any_of(card.rails.begin(), card.rails.end(),
                     [&](const RailCard& rail) { return rail.interface == name; });
}

// Networks of two hosts and more that others are not in; and of rank 0's own where others have such an
// interface. A network of one host alone is usually meant to be that.
std::vector<std::string> notes_on_missing(const std::vector<Card>& cards, const std::vector<Rank>& leaders) {
  std::map<std::string, const RailCard*> rails;  // by subnet, the first host's
  std::map<std::string, std::set<Rank>> hosts_in;
  for (Rank leader : leaders)
    for (const RailCard& rail : cards[static_cast<std::size_t>(leader)].rails) {
      rails.try_emplace(rail.subnet, &rail);
      hosts_in[rail.subnet].insert(leader);
    }
  std::vector<std::string> notes;
  for (const auto& [subnet, rail] : rails) {
    bool is_expected = hosts_in[subnet].size() > 1,
         is_of_rank_0 = rail_in(cards[0], subnet) < cards[0].rails.size();
    if (!is_expected && !is_of_rank_0) continue;  // private to one host: there may be as many as hosts
    std::vector<std::string> missing;
    for (Rank leader : leaders) {
      const Card& card = cards[static_cast<std::size_t>(leader)];
      if (rail_in(card, subnet) < card.rails.size() || is_idle_in(card, *rail)) continue;
      is_expected |= is_of_rank_0 && has_interface(card, rail->interface);
      missing.push_back(card.host);
    }
    if (is_expected && !missing.empty())
      notes.push_back(
          fmt::format("network {} is not used ({} has no address in it)", subnet, list_of(missing)));
  }
  return notes;
}

}  // namespace

// One lane per subnet that all ranks are in. Hosts without a common subnet may still reach each other through
// a router: then one lane over everybody's first rail is tried.
std::string find_lanes(const std::vector<Card>& cards, Census& census) {
  if (census.hosts() == 1) return {};
  if (std::string trouble = trouble_with_rails(cards); !trouble.empty()) return trouble;
  std::vector<Rank> leaders = census.leaders();
  census.notes = notes_on_missed(cards, leaders);
  if (cards[0].fake_hosts.empty())
    for (std::string& note : notes_on_missing(cards, leaders)) census.notes.push_back(std::move(note));
  for (const RailCard& rail : cards[0].rails) {
    bool common = std::all_of(cards.begin(), cards.end(), [&](const Card& card) {
      return rail_in(card, rail.subnet) < card.rails.size();
    });
    bool known = std::find(census.lanes.begin(), census.lanes.end(), rail.subnet) != census.lanes.end();
    if (!common || known || census.lanes.size() == kMostLanes) continue;
    std::string twice = cards[0].fake_hosts.empty() ? same_address(cards, leaders, rail.subnet) : "";
    if (twice.empty())
      census.lanes.push_back(rail.subnet);
    else
      census.notes.push_back(twice);
  }
  bool routed = census.lanes.empty();
  if (routed) census.lanes.push_back("routed");
  for (const Card& card : cards) {
    census.rail_of_lane.emplace_back();
    for (const std::string& lane : census.lanes)
      census.rail_of_lane.back().push_back(routed ? 0 : rail_in(card, lane));
  }
  for (std::size_t lane = 0; lane < census.lanes.size(); ++lane)
    census.lane_gbit.push_back(slowest_in(cards, census, lane));
  return {};
}

}  // namespace ddl
