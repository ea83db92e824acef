// Grid: the ranks of one communicator as a tree of dimensions, fastest fabric first.
//
// Height 0 of the tree are the ranks, height 1 for instance their hosts, ..., the last height is one root.
// Dimension d joins the children (height d) of a node of height d + 1. The tree is read from where the ranks
// are and never assumed from rank order: block, round-robin and any other order are the same case, and so are
// hosts with unequal numbers of ranks.
//
// Two forms behind one interface. A *regular* grid is a list of {extent, stride}: rank = sum of coordinate x
// stride; it takes memory for its dimensions only, however many ranks there are. Block and round-robin order
// differ in their strides, and permuting the list permutes the order of the dimensions. Every other grid is
// a *tree* with explicit nodes. The builders give a regular grid wherever there is one.
//
// Unequal fan-out: at dimension d a piece is cut into fanout(d) subpieces, the size of the largest group, and
// subpiece m belongs to child m mod p of every group: one owner per subtree, everybody works, there is no
// leader.
//
// A value; reading it is safe from any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/types.hpp"
#include "core/plan/fabric.hpp"

namespace ddl {

struct Dimension {
  std::string name;               // what it joins, for people: "local", "hosts", "racks"
  Rank extent = 1;                // size of its largest group
  Rank stride = 1;                // regular grids: distance between neighbours in rank numbers; 0 in a tree
  Fabric fabric = Fabric::local;  // local: all its groups lie within hosts
  Rank smallest = 0;              // size of its smallest group; 0: like the largest
  bool mixed = false;             // wire, and yet some members of a group share a host
};

/// One level of nodes above the ranks, for Grid::from_levels.
struct Level {
  std::string name;                        // what its nodes are: "hosts"; "" lets the fabric decide
  std::vector<std::int32_t> node_of_rank;  // any numbers
};

/// Which children of a group own parts of a piece there: all of them, or the first 2^n, as halving needs it.
enum class Owners : std::uint8_t { all, power_of_two };

/// Part `part` of what a piece was cut into at one dimension: owned by child `part` mod the number of owners.
struct Turn {
  Rank part = 0;
  Owners owners = Owners::all;
};
using Path = std::vector<Turn>;  // dimension 0 first

/// The ranks that work on a piece together in one dimension.
struct Group {
  std::vector<Rank> members;  // owners of the piece in each child, in the order of the grid
  std::size_t me = 0;
};

/// Number of owners among that many children.
std::size_t owners_among(std::size_t children, Owners owners);

class Grid {
 public:
  /// Two dimensions, ranks of a host and hosts, from the host of each rank. Any host numbers; order of first
  /// appearance counts. One host gives one dimension.
  static Grid from_hosts(std::span<const HostIndex> host_of_rank);
  /// Three dimensions, ranks of a NUMA node, nodes of a host and hosts, where a host has several nodes of
  /// several ranks: a piece then crosses from node to node once and not once for each rank there. Else, and
  /// where anybody's node is unknown (-1), the same as from_hosts.
  static Grid from_nodes(std::span<const HostIndex> host_of_rank, std::span<const int> node_of_rank);
  /// Dimension 0 joins the ranks of a node of levels[0], dimension i the nodes of levels[i - 1]; the last one
  /// joins what is left. Each level must nest in the next (else Error). Dimensions that join nothing are left
  /// out, but for dimension 0. Groups list their members in the order of their first rank in `order`, a
  /// permutation of the ranks (empty: rank order): this is where a ring gets its order from.
  static Grid from_levels(std::span<const HostIndex> host_of_rank, const std::vector<Level>& levels,
                          std::span<const Rank> order = {});
  /// The user's dimensions, laid on the ranks sorted by (host, rank). UsageError when their product is not
  /// the number of ranks.
  static Grid from_dims(std::span<const HostIndex> host_of_rank, std::span<const Rank> dims);
  /// From extents and strides; ranks are on one host when they differ in local dimensions only.
  static Grid regular(std::vector<Dimension> dimensions);

  int dimensions() const { return static_cast<int>(dimensions_.size()); }
  const Dimension& dimension(int d) const { return dimensions_[static_cast<std::size_t>(d)]; }
  /// Size of the largest group of dimension d: the number of subpieces a piece is cut into there.
  Rank fanout(int d) const { return dimension(d).extent; }
  Rank ranks() const { return ranks_; }
  /// Whether any of its groups reaches beyond a host.
  bool spans_hosts() const;
  bool is_regular() const { return levels_.empty(); }
  bool same_host(Rank a, Rank b) const;
  /// The group of `rank` at dimension d for the piece that `path` leads to, which `rank` must own.
  Group group_of(Rank rank, int d, const Path& path) const;
  /// The same ranks with dimension order[i] in place i. Regular grids only (else Error).
  Grid permuted(std::span<const int> order) const;
  /// Memory behind this value.
  Bytes bytes() const;

 private:
  using NodeId = std::int32_t;  // index of a node among those of its height; at height 0 it is the rank
  struct TreeLevel {
    std::vector<NodeId> parent;                 // of each node of height d, at height d + 1
    std::vector<std::vector<NodeId>> children;  // of each node of height d + 1, at height d
  };
  class Builder;

  Rank coordinate(Rank rank, const Dimension& dimension) const {
    return rank / dimension.stride % dimension.extent;
  }
  Rank owner(NodeId node, int height, const Path& path) const;

  Rank ranks_ = 1;
  std::vector<Dimension> dimensions_;
  std::vector<TreeLevel> levels_;   // trees only
  std::vector<HostIndex> host_of_;  // trees only
};

}  // namespace ddl
