#include "peers.hpp"

#include <algorithm>
#include <bit>

namespace ddl::simulation {
namespace {

enum class Phase : std::uint64_t { up = 1, down = 2 };

Tag tag(Phase phase, LaneId lane, std::uint32_t part) {
  return static_cast<Tag>(phase) << 48 | static_cast<Tag>(lane) << 32 | part;
}

// One plan under construction.
class Writer {
 public:
  Writer(const Cluster& cluster, Rank rank, std::string name, Bytes segment, int window)
      : cluster_(cluster), rank_(rank) {
    plan_.name = std::move(name);
    plan_.segment = segment;
    plan_.window = window;
  }

  SliceId slice(SliceId parent, std::uint32_t index, std::uint32_t parts) {
    plan_.slices.push_back({parent, index, index + 1, parts});
    return static_cast<SliceId>(plan_.slices.size() - 1);
  }

  void begin_flow(LaneId lane) {
    lane_ = lane;
    plan_.lanes = std::max<LaneId>(plan_.lanes, static_cast<LaneId>(lane + 1));
    plan_.flows.push_back({static_cast<std::uint32_t>(plan_.steps.size()), 0});
  }

  // Peers of one step of a tree may be in the host and outside: a send is cut in two, the others do not care.
  void step(Verb verb, SliceId slice, Tag tag, const std::vector<Rank>& peers) {
    std::vector<Rank> local, wire;
    for (Rank peer : peers)
      (cluster_.host_of(peer) == cluster_.host_of(rank_) ? local : wire).push_back(peer);
    if (verb == Verb::send) {
      append(verb, Fabric::wire, slice, tag, wire);
      append(verb, Fabric::local, slice, tag, local);
    } else {
      append(verb, wire.empty() ? Fabric::local : Fabric::wire, slice, tag, peers);
    }
  }

  Plan done() {
    plan_.seal();
    return std::move(plan_);
  }

 private:
  void append(Verb verb, Fabric fabric, SliceId slice, Tag tag, const std::vector<Rank>& peers) {
    if (peers.empty()) return;
    Step step{};
    step.verb = verb;
    step.own = Source::output;
    step.fabric = fabric;
    step.rail = lane_;
    step.slice = slice;
    step.tag = tag;
    step.peer = static_cast<std::uint32_t>(plan_.peers.size());
    step.peers = static_cast<std::uint32_t>(peers.size());
    plan_.steps.push_back(step);
    plan_.peers.insert(plan_.peers.end(), peers.begin(), peers.end());
    ++plan_.flows.back().count;
  }

  const Cluster& cluster_;
  Rank rank_;
  LaneId lane_ = 0;
  Plan plan_;
};

Plan flat_ring(const Cluster& cluster, Rank rank, Bytes bytes) {
  Writer plan(cluster, rank, "flat ring", bytes, 1);
  Rank ranks = cluster.ranks();
  for (int lane = 0; lane < cluster.rails; ++lane) {
    Rank way = lane % 2 == 0 ? 1 : ranks - 1;
    Rank next = (rank + way) % ranks, previous = (rank + ranks - way) % ranks;
    SliceId whole = plan.slice(kWholeSegment, static_cast<std::uint32_t>(lane),
                               static_cast<std::uint32_t>(cluster.rails));
    std::vector<SliceId> part;
    for (Rank r = 0; r < ranks; ++r)
      part.push_back(plan.slice(whole, static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(ranks)));
    // The part that is t places behind this rank on the ring.
    auto behind = [&](Rank t) {
      return static_cast<std::uint32_t>((rank + static_cast<std::int64_t>(ranks - way) * (t % ranks)) %
                                        ranks);
    };
    plan.begin_flow(static_cast<LaneId>(lane));
    auto pass = [&](Phase phase, Verb verb, Rank t) {
      plan.step(Verb::send, part[behind(t)], tag(phase, static_cast<LaneId>(lane), behind(t)), {next});
      plan.step(verb, part[behind(t + 1)], tag(phase, static_cast<LaneId>(lane), behind(t + 1)), {previous});
    };
    for (Rank t = 1; t < ranks; ++t) pass(Phase::up, Verb::reduce, t);
    for (Rank t = 0; t + 1 < ranks; ++t) pass(Phase::down, Verb::copy, t);
  }
  return plan.done();
}

// The half-open range [first, last) becomes the subtree below `parent`; returns its root.
int grow(std::vector<TreeNode>& tree, int first, int last, int parent) {
  if (first == last) return -1;
  // The largest power of two within keeps the leaves at even places, so that moving by one swaps roles.
  int middle = first + static_cast<int>(std::bit_floor(static_cast<unsigned>(last - first))) - 1;
  if (middle == last - 1 && last - first > 1) middle = first + (last - first) / 2 - 1;
  tree[static_cast<std::size_t>(middle)].parent = parent;
  for (int child : {grow(tree, first, middle, middle), grow(tree, middle + 1, last, middle)})
    if (child >= 0) tree[static_cast<std::size_t>(middle)].children.push_back(child);
  return middle;
}

Plan double_tree(const Cluster& cluster, Rank rank, const std::vector<TreeNode>& tree, Bytes segment) {
  constexpr int kTrees = 2, kWindow = 32;  // enough segments in flight to fill the longest way up and down
  Writer plan(cluster, rank, "double tree", segment, kWindow);
  Rank hosts = cluster.hosts, gpus = cluster.gpus, host = cluster.host_of(rank);
  for (int t = 0; t < kTrees; ++t) {
    // The second tree is the first one moved by a host; its data leave a host through another GPU.
    Rank door = t * gpus / kTrees;
    auto door_of = [&](int node) { return (node + t) % hosts * gpus + door; };
    const TreeNode& node = tree[static_cast<std::size_t>((host + hosts - t) % hosts)];
    Rank place = (cluster.gpu_of(rank) + gpus - door) % gpus;  // in the chain of this host, the door is 0
    auto in_chain = [&](Rank at) { return host * gpus + (door + at) % gpus; };
    std::vector<Rank> above, below;
    if (place > 0)
      above.push_back(in_chain(place - 1));
    else if (node.parent >= 0)
      above.push_back(door_of(node.parent));
    if (place == 0)
      for (int child : node.children) below.push_back(door_of(child));
    if (place + 1 < gpus) below.push_back(in_chain(place + 1));

    auto lane = static_cast<LaneId>(t);
    SliceId half = plan.slice(kWholeSegment, static_cast<std::uint32_t>(t), kTrees);
    plan.begin_flow(lane);
    plan.step(Verb::reduce, half, tag(Phase::up, lane, 0), below);
    plan.step(Verb::send, half, tag(Phase::up, lane, 0), above);
    plan.step(Verb::copy, half, tag(Phase::down, lane, 0), above);
    plan.step(Verb::send, half, tag(Phase::down, lane, 0), below);
  }
  return plan.done();
}

}  // namespace

std::vector<TreeNode> balanced_tree(int nodes) {
  std::vector<TreeNode> tree(static_cast<std::size_t>(nodes));
  grow(tree, 0, nodes, -1);
  return tree;
}

std::vector<Plan> flat_ring_plans(const Cluster& cluster, Bytes bytes) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) plans.push_back(flat_ring(cluster, rank, bytes));
  return plans;
}

std::vector<Plan> double_tree_plans(const Cluster& cluster, Bytes bytes) {
  // Small enough to fill the pipeline, large enough to hide latency.
  Bytes segment = std::clamp<Bytes>(bytes / 64, 32 << 10, 1 << 20);
  std::vector<TreeNode> tree = balanced_tree(cluster.hosts);
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank)
    plans.push_back(double_tree(cluster, rank, tree, segment));
  return plans;
}

}  // namespace ddl::simulation
