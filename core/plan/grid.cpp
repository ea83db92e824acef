#include "core/plan/grid.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/base/error.hpp"

namespace ddl {

std::size_t owners_among(std::size_t children, Owners owners) {
  return owners == Owners::all ? children : std::bit_floor(children);
}

// rank / stride % extent is a coordinate only when sorted by stride each stride is the product of the extents
// before it; then the ranks are 0 ... product - 1, each once.
Grid Grid::regular(std::vector<Dimension> dimensions) {
  std::vector<const Dimension*> by_stride;
  for (const Dimension& dimension : dimensions)
    if (dimension.extent != 1) by_stride.push_back(&dimension);
  std::sort(by_stride.begin(), by_stride.end(), [](auto* a, auto* b) { return a->stride < b->stride; });
  std::int64_t product = 1;
  for (const Dimension* dimension : by_stride) {
    if (dimension->extent < 1 || dimension->stride != product)
      throw Error("extents and strides do not number the ranks", "each rank must have one place in the grid");
    product *= dimension->extent;
    if (product > std::numeric_limits<Rank>::max())
      throw Error("the dimensions hold more ranks than can be counted");
  }
  Grid grid;
  grid.ranks_ = static_cast<Rank>(product);
  grid.dimensions_ = std::move(dimensions);
  for (Dimension& dimension : grid.dimensions_) {
    dimension.stride = std::max<Rank>(1, dimension.stride);
    dimension.smallest = dimension.extent;
  }
  return grid;
}

Grid Grid::permuted(std::span<const int> order) const {
  std::vector<int> sorted(order.begin(), order.end());
  std::sort(sorted.begin(), sorted.end());
  bool all = static_cast<int>(sorted.size()) == dimensions();
  for (std::size_t i = 0; all && i < sorted.size(); ++i) all = sorted[i] == static_cast<int>(i);
  if (!all) throw Error("an order of dimensions must name each of them once");
  if (std::is_sorted(order.begin(), order.end())) return *this;
  if (!is_regular())
    throw Error("the dimensions of this grid have one order only", "its groups are unequal",
                "leave the order of the dimensions alone");
  Grid grid = *this;
  for (std::size_t i = 0; i < order.size(); ++i) grid.dimensions_[i] = dimension(order[i]);
  return grid;
}

bool Grid::spans_hosts() const {
  return std::any_of(dimensions_.begin(), dimensions_.end(),
                     [](const Dimension& dimension) { return dimension.fabric == Fabric::wire; });
}

bool Grid::same_host(Rank a, Rank b) const {
  if (!is_regular()) return host_of_[static_cast<std::size_t>(a)] == host_of_[static_cast<std::size_t>(b)];
  return std::all_of(dimensions_.begin(), dimensions_.end(), [&](const Dimension& dimension) {
    return dimension.fabric == Fabric::local || coordinate(a, dimension) == coordinate(b, dimension);
  });
}

Group Grid::group_of(Rank rank, int d, const Path& path) const {
  Group group;
  if (is_regular()) {
    const Dimension& along = dimension(d);
    group.me = static_cast<std::size_t>(coordinate(rank, along));
    Rank first = rank - coordinate(rank, along) * along.stride;
    for (Rank i = 0; i < along.extent; ++i) group.members.push_back(first + i * along.stride);
    return group;
  }
  NodeId node = rank;
  for (int height = 0; height <= d; ++height)
    node = levels_[static_cast<std::size_t>(height)].parent[static_cast<std::size_t>(node)];
  for (NodeId child : levels_[static_cast<std::size_t>(d)].children[static_cast<std::size_t>(node)]) {
    Rank member = owner(child, d, path);
    if (member == rank) group.me = group.members.size();
    group.members.push_back(member);
  }
  return group;
}

Rank Grid::owner(NodeId node, int height, const Path& path) const {
  for (auto d = static_cast<std::size_t>(height); d-- > 0;) {
    const std::vector<NodeId>& group = levels_[d].children[static_cast<std::size_t>(node)];
    node = group[static_cast<std::size_t>(path[d].part) % owners_among(group.size(), path[d].owners)];
  }
  return node;
}

Bytes Grid::bytes() const {
  Bytes bytes = sizeof(Grid) + dimensions_.size() * sizeof(Dimension) + host_of_.size() * sizeof(HostIndex);
  for (const TreeLevel& level : levels_) {
    bytes += level.parent.size() * sizeof(NodeId) + level.children.size() * sizeof(level.children[0]);
    for (const auto& group : level.children) bytes += group.size() * sizeof(NodeId);
  }
  return bytes;
}

}  // namespace ddl
