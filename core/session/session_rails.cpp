// The part of Session about the wire: which interfaces it offers as rails, which of them reach the other hosts.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/session/session.hpp"
#include "core/topology/nics.hpp"
#include "core/transport/tcp.hpp"
#include "core/transport/ucx.hpp"

namespace ddl {
namespace {

// A lost first packet is sent again after 1, 3 and 7 seconds.
constexpr Nanoseconds kPatienceWithRails = 8'000'000'000;

// Decided from variables that the launcher gives to all ranks alike, never from what one host has: the census
// refuses a job whose ranks differ. UCX earns its place where it may use more than sockets. Over sockets, on
// a shared machine of two cores with 4 hosts x 2 ranks and unshaped links, all ranks together take 145 ms of
// processor time for 16 MiB with UCX and 119 ms with TCP. Wall time from 256 KiB on is 1.0 to 1.9 times
// better in four runs, 0.7 to 1.5 times in two under foreign load. At 1 Gbit/s, and below 4 KiB, the noise is
// larger than the difference.
Wire choose_wire(const Env& env) {
  if (env.wire != Wire::automatic) return env.wire;
  return env.ucx_tls == "tcp" ? Wire::tcp : Wire::ucx;
}

std::unique_ptr<WireTransport> open_wire(Wire wire, const std::vector<TcpRail>& rails, const Env& env,
                                         Rank me) {
  if (wire == Wire::tcp) return std::make_unique<TcpTransport>(rails, me);
  std::vector<std::string> names;
  for (const TcpRail& rail : rails) names.push_back(rail.interface);
  return make_ucx_transport(names, env.ucx_tls);
}

// Interfaces that somebody may miss among the rails, and why they are none.
std::vector<IdleRail> idle_rails(const std::vector<Nic>& nics, const RailChoice& choice,
                                 const std::vector<std::string>& wanted) {
  std::vector<IdleRail> idle;
  for (const SkippedNic& skipped : choice.skipped) {
    auto nic =
        std::find_if(nics.begin(), nics.end(), [&](const Nic& one) { return one.name == skipped.name; });
    bool asked = std::find(wanted.begin(), wanted.end(), skipped.name) != wanted.end();
    bool is_private = nic->loopback || nic->kind == "docker" || nic->kind == "bridge";
    if (asked || (wanted.empty() && !is_private))
      idle.push_back({skipped.name, subnet_of(*nic), skipped.reason, asked});
  }
  for (const std::string& name : choice.missing)
    idle.push_back({name, "", "there is no such interface", true});
  return idle;
}

}  // namespace

void Session::open_rails(Card& card) {
  std::vector<std::string> wanted = wanted_rails(env_);
  if (wanted.empty() && !env_.fake_hosts.empty()) wanted = {"lo"};
  std::vector<Nic> nics = list_nics();
  RailChoice choice = choose_rails(nics, wanted);
  card.idle_rails = idle_rails(nics, choice, wanted);
  if (choice.rails.empty()) return;
  std::vector<TcpRail> rails;
  for (const Nic& nic : choice.rails) rails.push_back({nic.name, nic.address});
  Wire wire = choose_wire(env_);
  card.wire = wire == Wire::tcp ? "tcp" : "ucx";
  wire_ = open_wire(wire, rails, env_, rank());
  if (wire_->wake_fd() >= 0) {
    region_->open_bell();
    card.bell = region_->bell();
  }
  doors_ = std::make_unique<RailDoors>(rails);
  for (std::size_t i = 0; i < rails.size(); ++i)
    card.rails.push_back({rails[i].interface, subnet_of(choice.rails[i]), wire_->address(i), rails[i].address,
                          doors_->port(i), rated_gbit(choice.rails[i])});
}

// One rank of each host tries; the others believe it.
void Session::try_rails() {
  reach_ = ~std::uint64_t{0};
  lane_trouble_.assign(census_.lanes.size(), {});
  std::vector<Rank> leaders = census_.leaders();
  HostIndex here = census_.host_of_rank[static_cast<std::size_t>(rank())];
  if (census_.hosts() == 1 || leaders[static_cast<std::size_t>(here)] != rank()) return;
  auto rail_of = [&](Rank rank, std::size_t lane) -> const RailCard& {
    return cards_[static_cast<std::size_t>(rank)]
        .rails[census_.rail_of_lane[static_cast<std::size_t>(rank)][lane]];
  };
  std::vector<HostIndex> others = hosts_to_try(here, census_.hosts());
  std::vector<Knock> knocks;
  for (std::size_t lane = 0; lane < census_.lanes.size(); ++lane)
    for (HostIndex other : others) {
      const RailCard& door = rail_of(leaders[static_cast<std::size_t>(other)], lane);
      knocks.push_back({rail_of(rank(), lane).ip, door.ip, door.door});
    }
  auto patience = std::min(static_cast<Nanoseconds>(env_.timeout_s * 1e9), kPatienceWithRails);
  std::vector<std::string> reasons = knock(knocks, patience);
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    std::size_t lane = i / others.size();
    if (reasons[i].empty() || !lane_trouble_[lane].empty()) continue;
    reach_ &= ~(std::uint64_t{1} << lane);
    lane_trouble_[lane] = fmt::format(
        "rail {} ({}) does not reach {} ({})", rail_of(rank(), lane).interface, census_.lanes[lane],
        census_.host_names[static_cast<std::size_t>(others[i % others.size()])], reasons[i]);
  }
}

// A lane that one rank cannot use nobody uses. The first who found that says so, for all.
void Session::choose_lanes(std::span<const std::uint64_t> reach_of_rank) {
  std::vector<bool> keep;
  std::string kept, lost;
  for (std::size_t lane = 0; lane < census_.lanes.size(); ++lane) {
    auto first = std::find_if(reach_of_rank.begin(), reach_of_rank.end(),
                              [&](std::uint64_t reach) { return !(reach >> lane & 1); });
    keep.push_back(first == reach_of_rank.end());
    if (keep[lane]) kept += (kept.empty() ? "" : ", ") + census_.lanes[lane];
    if (first - reach_of_rank.begin() == rank()) lost += (lost.empty() ? "" : "; ") + lane_trouble_[lane];
  }
  census_.keep_lanes(keep);
  if (lost.empty()) return;
  log_warning(kept.empty() ? "collectives use the original library: " + lost
                           : fmt::format("{}; collectives go over {}", lost, kept));
}

void Session::connect_wire(const std::vector<Card>& cards) {
  std::vector<std::vector<WireAddress>> addresses;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    addresses.emplace_back();
    for (std::size_t rail : census_.rail_of_lane[r]) addresses.back().push_back(cards[r].rails[rail].address);
  }
  wire_->set_lanes(census_.rail_of_lane[static_cast<std::size_t>(rank())], std::move(addresses));
}

}  // namespace ddl
