#include "core/plan/link_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <set>
#include <tuple>

#include "core/base/error.hpp"

namespace ddl {
namespace {

constexpr LinkId kNoLink = ~LinkId{0};

}  // namespace

VertexId Network::add(std::string name, Role role) {
  vertices_.push_back({std::move(name), role, {}});
  return vertices_.size() - 1;
}

LinkId Network::connect(VertexId a, VertexId b, double bandwidth) {
  LinkId link = links_.size();
  links_.push_back({a, b, bandwidth});
  links_.push_back({b, a, bandwidth});
  vertices_[a].out.push_back(link);
  vertices_[b].out.push_back(link ^ 1);
  return link;
}

std::string Network::name(LinkId link) const {
  return vertices_[links_[link].from].name + " -> " + vertices_[links_[link].to].name;
}

LinkId Network::link(VertexId from, VertexId to) const {
  for (LinkId link : vertices_[from].out)
    if (links_[link].to == to) return link;
  throw Error(fmt::format("no link joins {} and {}", vertices_[from].name, vertices_[to].name));
}

// Dijkstra over (links, seconds per byte); equal ways are decided by the order in which they were connected,
// so that a route and its way back are the same links.
std::vector<LinkId> Network::routes_from(VertexId from) const {
  using Cost = std::pair<std::size_t, double>;
  constexpr Cost kFar{std::numeric_limits<std::size_t>::max(), 0};
  std::vector<Cost> cost(vertices_.size(), kFar);
  std::vector<LinkId> last(vertices_.size(), kNoLink);
  using Entry = std::pair<Cost, VertexId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  cost[from] = {0, 0};
  queue.push({cost[from], from});
  while (!queue.empty()) {
    auto [reached, at] = queue.top();
    queue.pop();
    if (reached > cost[at] || (at != from && vertices_[at].role == Role::end)) continue;
    for (LinkId link : vertices_[at].out) {
      Cost next{reached.first + 1, reached.second + 1 / links_[link].bandwidth};
      VertexId to = links_[link].to;
      if (next > cost[to] || (next == cost[to] && link / 2 >= last[to] / 2)) continue;
      cost[to] = next;
      last[to] = link;
      queue.push({next, to});
    }
  }
  return last;
}

std::vector<LinkId> Network::route(VertexId from, VertexId to) const {
  std::vector<LinkId> last = routes_from(from), route;
  for (VertexId at = to; at != from; at = links_[last[at]].from) {
    if (last[at] == kNoLink)
      throw Error(fmt::format("no way leads from {} to {}", vertices_[from].name, vertices_[to].name));
    route.push_back(last[at]);
  }
  std::reverse(route.begin(), route.end());
  return route;
}

std::vector<VertexId> Network::ring_order(VertexId root, std::span<const VertexId> ends) const {
  std::vector<LinkId> last = routes_from(root);
  std::set<VertexId> wanted(ends.begin(), ends.end());
  std::vector<VertexId> order, stack = {root};
  while (!stack.empty()) {
    VertexId at = stack.back();
    stack.pop_back();
    if (wanted.erase(at)) order.push_back(at);
    for (auto link = vertices_[at].out.rbegin(); link != vertices_[at].out.rend(); ++link)
      if (last[links_[*link].to] == *link) stack.push_back(links_[*link].to);
  }
  if (!wanted.empty())
    throw Error(
        fmt::format("no way leads from {} to {}", vertices_[root].name, vertices_[*wanted.begin()].name));
  return order;
}

std::vector<Bytes> link_load(const Network& network, const RankPlaces& places, const std::vector<Plan>& plans,
                             Elements count, Bytes element_size) {
  std::vector<Bytes> load(network.links());
  std::map<std::pair<VertexId, VertexId>, std::vector<LinkId>> known;
  auto carry = [&](VertexId from, VertexId to, Bytes bytes) {
    auto [route, fresh] = known.try_emplace({from, to});
    if (fresh) route->second = network.route(from, to);
    for (LinkId link : route->second) load[link] += bytes;
  };
  for (std::size_t r = 0; r < plans.size(); ++r) {
    const Plan& plan = plans[r];
    SliceTable table;
    table.compute(plan, count, element_size);
    for (const Step& step : plan.steps) {
      if (step.verb != Verb::send) continue;
      Bytes bytes = table.of(step).count * element_size;
      for (std::uint32_t i = 0; i < step.peers; ++i) {
        Rank peer = plan.peers[step.peer + i];
        VertexId from = places.vertex[r], to = places.vertex[static_cast<std::size_t>(peer)];
        if (step.fabric == Fabric::wire && places.nic) {
          VertexId out = places.nic(static_cast<Rank>(r), step.rail), in = places.nic(peer, step.rail);
          carry(from, out, bytes);
          carry(out, in, bytes);
          carry(in, to, bytes);
        } else {
          carry(from, to, bytes);
        }
      }
    }
  }
  return load;
}

double busiest(const Network& network, const std::vector<Bytes>& load) {
  double seconds = 0;
  for (LinkId link = 0; link < load.size(); ++link)
    seconds = std::max(seconds, static_cast<double>(load[link]) / network.bandwidth(link));
  return seconds;
}

}  // namespace ddl
