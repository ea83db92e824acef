// Grid: the ranks of one communicator as a tree of dimensions, fastest fabric first.
//
// Height 0 of the tree are the ranks, height 1 their hosts, ..., the last height is one root. Dimension d
// joins the children (height d) of a node of height d + 1. The tree is read from the host-to-rank map and
// never assumed from rank order: block, round-robin and any other order are the same case, and so are hosts
// with unequal numbers of ranks.
//
// Unequal fan-out: at dimension d a piece is cut into fanout(d) subpieces, the size of the largest group, and
// subpiece m belongs to child m mod p of every group: one owner per subtree, everybody works, there is no
// leader.
#pragma once

#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

using NodeId = std::int32_t;  // index of a node among those of its height; at height 0 it is the rank

class Grid {
 public:
  /// Two dimensions, ranks of a host and hosts, from the host of each rank. Any host numbers; order of first
  /// appearance counts. One host gives one dimension.
  static Grid from_hosts(std::span<const HostIndex> host_of_rank);

  int dimensions() const { return static_cast<int>(levels_.size()); }
  Rank ranks() const { return ranks_; }
  /// Size of the largest group of dimension d: the number of subpieces a piece is cut into there.
  int fanout(int d) const { return levels_[d].fanout; }
  /// Children of a node of height d + 1, in order of their first rank.
  std::span<const NodeId> children(int d, NodeId node) const { return levels_[d].children[node]; }
  /// The ancestor of `rank` at height `h`.
  NodeId ancestor(Rank rank, int h) const;
  /// The rank that owns the piece with this path (subpiece index per dimension, dimension 0 first) in a
  /// subtree of height path.size().
  Rank owner(NodeId node, std::span<const int> path) const;

 private:
  struct Level {
    std::vector<NodeId> parent;                 // of each node of height d, at height d + 1
    std::vector<std::vector<NodeId>> children;  // of each node of height d + 1, at height d
    int fanout = 0;
  };
  void add_level(std::vector<NodeId> parent);

  Rank ranks_ = 0;
  std::vector<Level> levels_;
};

}  // namespace ddl
