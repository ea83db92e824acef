// How grids are built from what is known about the ranks: a tree first, then the regular form where there is
// one.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.hpp"
#include "core/plan/factorizations.hpp"
#include "core/plan/grid.hpp"

namespace ddl {

class Grid::Builder {
 public:
  Builder(std::span<const HostIndex> host_of_rank, std::span<const Rank> order)
      : host_of_(host_of_rank), order_(order.begin(), order.end()) {
    grid_.ranks_ = static_cast<Rank>(host_of_rank.size());
    if (order_.empty()) {
      order_.resize(host_of_rank.size());
      std::iota(order_.begin(), order_.end(), 0);
    }
    std::set<Rank> seen(order_.begin(), order_.end());
    if (order_.size() != host_of_rank.size() || seen.size() != order_.size() ||
        (!seen.empty() && (*seen.begin() < 0 || *seen.rbegin() >= grid_.ranks_)))
      throw Error("an order of ranks must name each of them once");
    node_of_.resize(order_.size());
    std::iota(node_of_.begin(), node_of_.end(), 0);
    nodes_ = grid_.ranks_;
  }

  // `joins`: what the dimension below the level is called.
  void add_level(const std::string& joins, std::span<const std::int32_t> node_of_rank) {
    std::map<std::int32_t, NodeId> renumbered;
    std::vector<NodeId> parent(static_cast<std::size_t>(nodes_), -1), above(order_.size());
    TreeLevel level;
    for (Rank rank : order_) {
      auto r = static_cast<std::size_t>(rank);
      above[r] =
          renumbered.try_emplace(node_of_rank[r], static_cast<NodeId>(renumbered.size())).first->second;
      NodeId& of_mine = parent[static_cast<std::size_t>(node_of_[r])];
      if (of_mine == above[r]) continue;
      if (of_mine >= 0) throw not_nested(joins);
      of_mine = above[r];
      level.children.resize(renumbered.size());
      level.children[static_cast<std::size_t>(above[r])].push_back(node_of_[r]);
    }
    level.parent = std::move(parent);
    add(joins, std::move(level), std::move(above));
  }

  Grid finish() {
    if (nodes_ != 1) throw Error("a grid must end in one root");
    grid_.host_of_.assign(host_of_.begin(), host_of_.end());
    for (std::size_t d = 0; d < grid_.dimensions_.size(); ++d) {
      Dimension& dimension = grid_.dimensions_[d];
      if (dimension.name.empty()) dimension.name = dimension.fabric == Fabric::local ? "local" : "hosts";
    }
    return with_strides() ? Grid::regular(std::move(grid_.dimensions_)) : std::move(grid_);
  }

 private:
  Error not_nested(const std::string& joins) const {
    return Error(fmt::format("one of the {} lies in two places of the level above", joins),
                 "the dimensions of a grid must nest", "correct the topology");
  }

  void add(const std::string& joins, TreeLevel level, std::vector<NodeId> above) {
    std::size_t extent = 0, smallest = order_.size();
    for (const auto& group : level.children) {
      extent = std::max(extent, group.size());
      smallest = std::min(smallest, group.size());
    }
    // A level of single children joins nothing, and its nodes are numbered as the children are.
    if (extent == 1 && !grid_.levels_.empty()) return;
    Dimension dimension{joins, static_cast<Rank>(extent), 0, fabric_below(above),
                        static_cast<Rank>(smallest)};
    dimension.mixed = dimension.fabric == Fabric::wire && !hosts_stay_whole(above);
    nodes_ = static_cast<Rank>(level.children.size());
    node_of_ = std::move(above);
    grid_.levels_.push_back(std::move(level));
    grid_.dimensions_.push_back(std::move(dimension));
  }

  Fabric fabric_below(const std::vector<NodeId>& above) const {
    std::map<NodeId, HostIndex> host;
    for (std::size_t r = 0; r < above.size(); ++r)
      if (host.try_emplace(above[r], host_of_[r]).first->second != host_of_[r]) return Fabric::wire;
    return Fabric::local;
  }

  // True when no host lies in two children of a node.
  bool hosts_stay_whole(const std::vector<NodeId>& above) const {
    std::map<std::pair<NodeId, HostIndex>, NodeId> child;
    for (std::size_t r = 0; r < above.size(); ++r)
      if (child.try_emplace({above[r], host_of_[r]}, node_of_[r]).first->second != node_of_[r]) return false;
    return true;
  }

  // The rank at the left edge below a node.
  Rank first_rank(NodeId node, std::size_t height) const {
    while (height-- > 0) node = grid_.levels_[height].children[static_cast<std::size_t>(node)][0];
    return node;
  }

  // Fills in the strides; false when the tree is not regular.
  bool with_strides() {
    for (std::size_t d = 0; d < grid_.levels_.size(); ++d) {
      const auto& children = grid_.levels_[d].children;
      auto extent = static_cast<std::size_t>(grid_.dimensions_[d].extent);
      if (std::any_of(children.begin(), children.end(), [&](auto& group) { return group.size() != extent; }))
        return false;
      const std::vector<NodeId>& group = children[0];
      grid_.dimensions_[d].stride = extent == 1 ? 1 : first_rank(group[1], d) - first_rank(group[0], d);
    }
    bool regular =
        none_is_mixed() && numbers_the_ranks() && places_lie_on_strides() && hosts_follow_dimensions();
    for (Dimension& dimension : grid_.dimensions_) dimension.stride = regular ? dimension.stride : 0;
    return regular;
  }

  bool none_is_mixed() const {
    return std::none_of(grid_.dimensions_.begin(), grid_.dimensions_.end(),
                        [](const Dimension& dimension) { return dimension.mixed; });
  }

  bool numbers_the_ranks() const {
    try {
      Grid::regular(grid_.dimensions_);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Every node's children must be one stride apart, everywhere.
  bool places_lie_on_strides() const {
    for (std::size_t d = 0; d < grid_.levels_.size(); ++d)
      for (const auto& group : grid_.levels_[d].children)
        for (std::size_t i = 1; i < group.size(); ++i)
          if (first_rank(group[i], d) - first_rank(group[i - 1], d) != grid_.dimensions_[d].stride)
            return false;
    return first_rank(0, grid_.levels_.size()) == 0;
  }

  // Ranks must share a host exactly when they differ in local dimensions only.
  bool hosts_follow_dimensions() const {
    std::map<Rank, HostIndex> host_of_place;
    std::map<HostIndex, Rank> place_of_host;
    for (Rank rank = 0; rank < grid_.ranks_; ++rank) {
      Rank place = rank;
      for (const Dimension& dimension : grid_.dimensions_)
        if (dimension.fabric == Fabric::local) place -= grid_.coordinate(rank, dimension) * dimension.stride;
      HostIndex host = host_of_[static_cast<std::size_t>(rank)];
      if (host_of_place.try_emplace(place, host).first->second != host) return false;
      if (place_of_host.try_emplace(host, place).first->second != place) return false;
    }
    return true;
  }

  Grid grid_;
  std::span<const HostIndex> host_of_;
  std::vector<Rank> order_;
  std::vector<NodeId> node_of_;  // of each rank, at the height reached so far
  Rank nodes_ = 0;
};

Grid Grid::from_hosts(std::span<const HostIndex> host_of_rank) {
  return from_levels(host_of_rank, {{"hosts", {host_of_rank.begin(), host_of_rank.end()}}});
}

Grid Grid::from_nodes(std::span<const HostIndex> host_of_rank, std::span<const int> node_of_rank) {
  std::map<std::pair<HostIndex, int>, std::int32_t> number;  // of each node, over all hosts
  std::vector<int> ranks;                                    // in it
  std::vector<std::int32_t> node(host_of_rank.size());
  for (std::size_t r = 0; r < node.size(); ++r) {
    auto next = static_cast<std::int32_t>(ranks.size());
    node[r] = number.try_emplace({host_of_rank[r], node_of_rank[r]}, next).first->second;
    if (node[r] == next) ranks.push_back(0);
    ++ranks[static_cast<std::size_t>(node[r])];
  }
  std::map<HostIndex, int> shared_nodes;  // that several ranks share
  for (auto& [place, n] : number) shared_nodes[place.first] += ranks[static_cast<std::size_t>(n)] > 1;
  bool is_known = std::none_of(node_of_rank.begin(), node_of_rank.end(), [](int n) { return n < 0; });
  bool is_worth_it =
      std::any_of(shared_nodes.begin(), shared_nodes.end(), [](auto& host) { return host.second > 1; });
  if (!is_known || !is_worth_it) return from_hosts(host_of_rank);
  return from_levels(
      host_of_rank, {{"NUMA nodes", std::move(node)}, {"hosts", {host_of_rank.begin(), host_of_rank.end()}}});
}

Grid Grid::from_levels(std::span<const HostIndex> host_of_rank, const std::vector<Level>& levels,
                       std::span<const Rank> order) {
  Builder builder(host_of_rank, order);
  std::string joins = "local";
  for (const Level& level : levels) {
    if (level.node_of_rank.size() != host_of_rank.size())
      throw Error(fmt::format("the {} of {} ranks are given for {} ranks", level.name,
                              level.node_of_rank.size(), host_of_rank.size()));
    builder.add_level(joins, level.node_of_rank);
    joins = level.name;
  }
  builder.add_level(joins, std::vector<std::int32_t>(host_of_rank.size(), 0));
  return builder.finish();
}

Grid Grid::from_dims(std::span<const HostIndex> host_of_rank, std::span<const Rank> dims) {
  check_dims(host_of_rank, dims);
  std::vector<Rank> sorted(host_of_rank.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](Rank a, Rank b) {
    return host_of_rank[static_cast<std::size_t>(a)] < host_of_rank[static_cast<std::size_t>(b)];
  });
  std::vector<Level> levels;
  Rank below = 1;
  for (Rank extent : dims) {
    if (extent == 1) continue;
    below *= extent;
    Level level{"", std::vector<std::int32_t>(sorted.size())};
    for (std::size_t i = 0; i < sorted.size(); ++i)
      level.node_of_rank[static_cast<std::size_t>(sorted[i])] = static_cast<std::int32_t>(i) / below;
    levels.push_back(std::move(level));
  }
  Builder builder(host_of_rank, sorted);
  for (const Level& level : levels) builder.add_level("", level.node_of_rank);
  if (levels.empty()) builder.add_level("", std::vector<std::int32_t>(sorted.size(), 0));
  return builder.finish();
}

}  // namespace ddl
