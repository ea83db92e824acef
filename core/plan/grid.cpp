#include "core/plan/grid.hpp"

#include <algorithm>
#include <map>

namespace ddl {

Grid Grid::from_hosts(std::span<const HostIndex> host_of_rank) {
  std::map<HostIndex, NodeId> renumbered;
  std::vector<NodeId> parent;
  for (HostIndex host : host_of_rank)
    parent.push_back(renumbered.try_emplace(host, static_cast<NodeId>(renumbered.size())).first->second);
  Grid grid;
  grid.ranks_ = static_cast<Rank>(host_of_rank.size());
  auto hosts = renumbered.size();
  grid.add_level(std::move(parent));
  if (hosts > 1) grid.add_level(std::vector<NodeId>(hosts, 0));
  return grid;
}

void Grid::add_level(std::vector<NodeId> parent) {
  Level level;
  level.children.resize(static_cast<std::size_t>(*std::max_element(parent.begin(), parent.end())) + 1);
  for (std::size_t node = 0; node < parent.size(); ++node)
    level.children[parent[node]].push_back(static_cast<NodeId>(node));
  for (const auto& group : level.children)
    level.fanout = std::max(level.fanout, static_cast<int>(group.size()));
  level.parent = std::move(parent);
  levels_.push_back(std::move(level));
}

NodeId Grid::ancestor(Rank rank, int h) const {
  NodeId node = rank;
  for (int d = 0; d < h; ++d) node = levels_[d].parent[node];
  return node;
}

Rank Grid::owner(NodeId node, std::span<const int> path) const {
  for (std::size_t d = path.size(); d-- > 0;) {
    std::span<const NodeId> group = children(static_cast<int>(d), node);
    node = group[static_cast<std::size_t>(path[d]) % group.size()];
  }
  return node;
}

}  // namespace ddl
