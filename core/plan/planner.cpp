#include "core/plan/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace ddl {
namespace {

enum class Phase : std::uint64_t { scatter = 1, gather = 2, exchange = 3 };

std::uint64_t mix(std::uint64_t key, std::uint64_t value) {
  std::uint64_t x = (key ^ (value + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 31);
}

// A slice of the plan under construction, with the key that all ranks give it.
struct Piece {
  SliceId slice;
  std::uint64_t key;
};

class Planner {
 public:
  Planner(const Grid& grid, Rank rank, const PlanChoice& choice) : grid_(grid), rank_(rank), choice_(choice) {
    plan_.segment = choice.segment;
    plan_.window = choice.window;
    plan_.lanes = choice.lanes;
  }

  Plan make() {
    for (LaneId lane = 0; lane < choice_.lanes; ++lane) {
      lane_ = lane;
      plan_flows_of({add_slice({kWholeSegment, 0}, lane, choice_.lanes)});
    }
    plan_.name = describe();
    plan_.seal();
    return std::move(plan_);
  }

 private:
  struct Group {
    std::vector<Rank> members;  // owners of the piece in each child, in the grid's order
    std::size_t me = 0;
  };

  // The first dimension decides the flows: each of its pieces is a flow of its own, so that they overlap.
  void plan_flows_of(Piece whole) {
    Group group = group_of({}, 0);
    if (choice_.algorithm[0] != Algorithm::direct) {
      begin_flow();
      dimension(0, whole, {}, Source::input);
      return;
    }
    int parts = grid_.fanout(0);
    for (int part = 0; part < parts; ++part) {
      begin_flow();
      direct(0, add_slice(whole, part, parts), part, group, {}, Source::input);
    }
  }

  // Reduces `piece` over the dimensions d, d+1, ... and brings it back; `path` leads to the piece.
  void dimension(int d, Piece piece, std::vector<int> path, Source own) {
    if (d == grid_.dimensions()) return;
    Group group = group_of(path, d);
    switch (choice_.algorithm[d]) {
      case Algorithm::exchange:
        return exchange(d, piece, group, own);
      case Algorithm::ring:
        return ring(d, piece, group, path, own);
      case Algorithm::direct:
        break;
    }
    for (int part = 0; part < grid_.fanout(d); ++part)
      direct(d, add_slice(piece, part, grid_.fanout(d)), part, group, path, own);
  }

  void direct(int d, Piece piece, int part, const Group& group, const std::vector<int>& path, Source own) {
    if (group.members.size() == 1) return dimension(d + 1, piece, extended(path, part), own);
    std::size_t owner = static_cast<std::size_t>(part) % group.members.size();
    Tag scatter = tag(Phase::scatter, d, piece), gather = tag(Phase::gather, d, piece);
    if (owner != group.me) {
      add_step(Verb::send, own, d, piece, scatter, {group.members[owner]});
      add_step(Verb::copy, own, d, piece, gather, {group.members[owner]});
      return;
    }
    add_step(Verb::reduce, own, d, piece, scatter, others(group), group.me);
    dimension(d + 1, piece, extended(path, part), Source::output);
    add_step(Verb::send, Source::output, d, piece, gather, others(group));
  }

  // Everybody sends everything; folded in the order of the group by everybody, so the bits agree.
  void exchange(int d, Piece piece, const Group& group, Source own) {
    if (group.members.size() == 1) return;
    Tag all = tag(Phase::exchange, d, piece);
    add_step(Verb::send, own, d, piece, all, others(group));
    add_step(Verb::reduce, own, d, piece, all, others(group), group.me);
    // Elsewhere a slice that was sent comes back only after its receiver had it; here the peers' shares prove
    // nothing.
    plan_.steps.back().after_sends = true;
  }

  // Row after row of as many blocks as the ring has members; a row may be short where this group is smaller
  // than the largest one of its dimension.
  void ring(int d, Piece piece, const Group& group, const std::vector<int>& path, Source own) {
    int members = static_cast<int>(group.members.size()), parts = grid_.fanout(d);
    std::vector<Piece> blocks;
    for (int part = 0; part < parts; ++part) blocks.push_back(add_slice(piece, part, parts));
    for (int row = 0; row < parts; row += members) {
      auto block = [&](int b) { return row + b < parts ? &blocks[row + b] : nullptr; };
      ring_row(d, block, blocks.data(), group, path, own);
    }
  }

  template <class Block>
  void ring_row(int d, const Block& block, const Piece* all, const Group& group, const std::vector<int>& path,
                Source own) {
    int members = static_cast<int>(group.members.size());
    int way = lane_ % 2 == 0 ? 1 : members - 1;  // odd lanes run the other way around
    int me = static_cast<int>(group.me);
    Rank next = group.members[(me + way) % members], previous = group.members[(me + members - way) % members];
    // In step t I pass on the block that is t + 1 behind me: after members - 1 steps I hold my own block,
    // complete.
    auto behind = [&](int t) { return block((me + (members - way) * (t % members)) % members); };
    for (int t = 1; t < members; ++t) {
      const Piece *sent = behind(t), *received = behind(t + 1);
      if (sent)
        add_step(Verb::send, t == 1 ? own : Source::output, d, *sent, tag(Phase::scatter, d, *sent), {next});
      if (received)
        add_step(Verb::reduce, own, d, *received, tag(Phase::scatter, d, *received), {previous}, 1);
    }
    if (const Piece* mine = behind(0))
      dimension(d + 1, *mine, extended(path, static_cast<int>(mine - all)),
                members == 1 ? own : Source::output);
    for (int t = 0; t + 1 < members; ++t) {
      const Piece *sent = behind(t), *received = behind(t + 1);
      if (sent) add_step(Verb::send, Source::output, d, *sent, tag(Phase::gather, d, *sent), {next});
      if (received) add_step(Verb::copy, own, d, *received, tag(Phase::gather, d, *received), {previous});
    }
  }

  Group group_of(const std::vector<int>& path, int d) const {
    Group group;
    for (NodeId child : grid_.children(d, grid_.ancestor(rank_, d + 1))) {
      Rank member = grid_.owner(child, path);
      if (member == rank_) group.me = group.members.size();
      group.members.push_back(member);
    }
    return group;
  }

  static std::vector<Rank> others(const Group& group) {
    std::vector<Rank> ranks = group.members;
    ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(group.me));
    return ranks;
  }

  static std::vector<int> extended(std::vector<int> path, int part) {
    path.push_back(part);
    return path;
  }

  static Tag tag(Phase phase, int d, const Piece& piece) {
    return mix(mix(piece.key, static_cast<std::uint64_t>(phase)), static_cast<std::uint64_t>(d));
  }

  Piece add_slice(Piece parent, int index, int parts) {
    plan_.slices.push_back(
        {parent.slice, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(parts)});
    return {static_cast<SliceId>(plan_.slices.size() - 1),
            mix(parent.key, static_cast<std::uint64_t>(index) + 1)};
  }

  void begin_flow() { plan_.flows.push_back({static_cast<std::uint32_t>(plan_.steps.size()), 0}); }

  void add_step(Verb verb, Source own, int d, const Piece& piece, Tag message, const std::vector<Rank>& to,
                std::size_t own_rank = 0) {
    Fabric fabric = d == 0 ? Fabric::local : Fabric::wire;
    plan_.steps.push_back(
        {verb, own, fabric, lane_, piece.slice, message, static_cast<std::uint32_t>(plan_.peers.size()),
         static_cast<std::uint32_t>(to.size()), static_cast<std::uint32_t>(own_rank), 0, false});
    plan_.peers.insert(plan_.peers.end(), to.begin(), to.end());
    ++plan_.flows.back().count;
  }

  std::string describe() const {
    static constexpr const char* kNames[] = {"direct", "ring", "exchange"};
    std::string text;
    for (int d = 0; d < grid_.dimensions(); ++d)
      text += fmt::format("{}{} {} {}", d ? " x " : "", grid_.fanout(d), d == 0 ? "local" : "hosts",
                          kNames[static_cast<int>(choice_.algorithm[d])]);
    if (choice_.lanes > 1) text += fmt::format(", {} lanes", choice_.lanes);
    return text;
  }

  const Grid& grid_;
  Rank rank_;
  const PlanChoice& choice_;
  LaneId lane_ = 0;
  Plan plan_;
};

// Below this many bytes a message costs its latency, whoever carries it: one step beats few bytes.
constexpr Bytes kExchangeLocal = 16 << 10;
constexpr Bytes kExchangeHosts = 8 << 10;
// A ring block on the wire: large enough to hide the cost of a message, small enough to keep several in
// flight.
constexpr Bytes kWireBlock = 64 << 10;
// A piece within a host: what stays in a core's second-level cache together with its destination.
constexpr Bytes kLocalPiece = 64 << 10;
constexpr Bytes kLeastSegment = 2 << 10;
// Head and slack of one staging block.
constexpr Bytes kBlockOverhead = 256;
constexpr int kWindow = 4;

Bytes staging_overhead(const Grid& grid, LaneId rails) {
  return kWindow * kBlockOverhead * static_cast<Bytes>(grid.fanout(0)) * rails;
}

}  // namespace

Bytes size_class(Bytes bytes) { return std::max<Bytes>(64, std::bit_ceil(bytes)); }

PlanChoice choose(const Grid& grid, Bytes bytes, const PlanLimits& limits) {
  PlanChoice choice;
  bool wire = grid.dimensions() > 1;
  bytes = size_class(bytes);
  choice.window = kWindow;
  choice.algorithm.push_back(!wire && bytes * static_cast<Bytes>(grid.ranks() - 1) <= kExchangeLocal
                                 ? Algorithm::exchange
                                 : Algorithm::direct);
  bool small = bytes <= kExchangeHosts;
  choice.algorithm.resize(static_cast<std::size_t>(grid.dimensions()),
                          small ? Algorithm::exchange : Algorithm::ring);
  choice.lanes = wire && !small ? limits.rails : LaneId{1};

  Bytes segment = static_cast<Bytes>(grid.fanout(0)) * kLocalPiece;
  if (wire) {
    Bytes blocks = static_cast<Bytes>(grid.fanout(0)) * choice.lanes;
    for (int d = 1; d < grid.dimensions(); ++d) blocks *= static_cast<Bytes>(grid.fanout(d));
    segment = blocks * kWireBlock;
  }
  if (limits.segment) segment = limits.segment;
  Bytes overhead = staging_overhead(grid, limits.rails);
  Bytes room = limits.staging > overhead ? (limits.staging - overhead) / kWindow : 0;
  segment = std::clamp(segment, kLeastSegment, std::max(kLeastSegment, room));
  choice.segment = segment / 64 * 64;
  return choice;
}

Bytes wanted_staging(const Grid& grid, const PlanLimits& limits) {
  PlanLimits free = limits;
  free.staging = ~Bytes{0} >> 1;
  Bytes largest = 0;
  for (Bytes bytes = 64; bytes <= Bytes{1} << 30; bytes *= 2)
    largest = std::max(largest, choose(grid, bytes, free).segment);
  return std::min(limits.staging, largest * kWindow + staging_overhead(grid, limits.rails));
}

Bytes least_staging(const Grid& grid, LaneId rails) {
  return kWindow * kLeastSegment + staging_overhead(grid, rails);
}

Plan make_plan(const Grid& grid, Rank rank, const PlanChoice& choice) {
  return Planner(grid, rank, choice).make();
}

}  // namespace ddl
