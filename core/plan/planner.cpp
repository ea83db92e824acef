#include "core/plan/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "core/base/error.hpp"
#include "core/plan/plan_builder.hpp"

namespace ddl {
namespace {

// What one lane does, dimension after dimension in its own order.
class LanePlanner {
 public:
  LanePlanner(const Grid& grid, Rank rank, std::vector<Algorithm> algorithm, std::size_t lane,
              const PlanChoice& choice, PlanBuilder& builder)
      : grid_(grid),
        rank_(rank),
        algorithm_(std::move(algorithm)),
        lane_(lane),
        shift_(choice.shift),
        narrows_(!choice.wire.is_exact()),
        build_(builder) {}

  // The first dimension decides the flows: each of its direct pieces is a flow of its own, so that they
  // overlap.
  void plan(Piece whole) {
    Path path;
    int d = 0;
    while (d < grid_.dimensions() && grid_.fanout(d) == 1) ++d, path.push_back({});
    if (d == grid_.dimensions()) {  // alone
      build_.begin_flow();
      return build_.keep(whole, Source::input);
    }
    if (algorithm_[static_cast<std::size_t>(d)] != Algorithm::direct) {
      build_.begin_flow();
      return dimension(d, whole, path, Source::input);
    }
    Direct at{d, grid_.group_of(rank_, d, path), path, Source::input};
    for (Rank part = 0; part < grid_.fanout(d); ++part) {
      build_.begin_flow();
      Piece piece = build_.cut(whole, part, grid_.fanout(d));
      contribute(at, piece, part);
      collect(at, piece, part);
      fetch(at, piece, part);
    }
  }

 private:
  // Reduces `piece` over the dimensions d, d+1, ... and brings it back; `path` leads to the piece. Where no
  // dimension is left this rank has completed it.
  void dimension(int d, Piece piece, const Path& path, Source own) {
    if (d == grid_.dimensions()) {
      if (narrows_) build_.round(piece, own);
      return;
    }
    Group group = grid_.group_of(rank_, d, path);
    switch (algorithm_[static_cast<std::size_t>(d)]) {
      case Algorithm::direct:
        return direct({d, std::move(group), path, own}, piece);
      case Algorithm::funnel:
        return funnel({d, std::move(group), path, own}, piece);
      case Algorithm::ring:
        return ring(d, piece, group, path, own);
      case Algorithm::halving:
        return halving(d, piece, group, path, own);
      case Algorithm::exchange:
        return exchange(d, piece, group, own);
      case Algorithm::doubling:
        return doubling(d, piece, group, own);
    }
  }

  // A dimension whose parts have one owner each, who gets the shares of all and gives the result to all.
  struct Direct {
    int d;
    Group group;
    Path path;
    Source own;
  };

  static std::size_t owner_of(const Direct& at, Rank part) {
    return static_cast<std::size_t>(part) % at.group.members.size();
  }

  // All that others own leaves before this rank waits for anything.
  void direct(const Direct& at, Piece piece) {
    std::vector<Piece> parts;
    for (Rank part = 0; part < grid_.fanout(at.d); ++part)
      parts.push_back(build_.cut(piece, part, grid_.fanout(at.d)));
    auto count = static_cast<Rank>(parts.size());
    for (Rank part = 0; part < count; ++part) contribute(at, parts[static_cast<std::size_t>(part)], part);
    for (Rank part = 0; part < count; ++part) collect(at, parts[static_cast<std::size_t>(part)], part);
    for (Rank part = 0; part < count; ++part) fetch(at, parts[static_cast<std::size_t>(part)], part);
  }

  // The piece stays whole; pieces, lanes and shifts go to different owners.
  void funnel(const Direct& at, Piece piece) {
    int shift = shift_;  // a digit of it for each funnel
    for (int d = 0; d < at.d; ++d)
      if (algorithm_[static_cast<std::size_t>(d)] == Algorithm::funnel) shift /= grid_.fanout(d);
    Rank part = static_cast<Rank>(lane_) + shift;
    for (const Turn& turn : at.path) part += turn.part;
    part %= grid_.fanout(at.d);
    contribute(at, piece, part);
    collect(at, piece, part);
    fetch(at, piece, part);
  }

  void contribute(const Direct& at, Piece piece, Rank part) {
    if (std::size_t owner = owner_of(at, part); owner != at.group.me)
      build_.send(at.own, piece, {Phase::scatter, at.d}, {&at.group.members[owner], 1});
  }

  void collect(const Direct& at, Piece piece, Rank part) {
    if (owner_of(at, part) != at.group.me) return;
    std::vector<Rank> peers = others(at.group);
    if (!peers.empty()) build_.reduce(at.own, piece, {Phase::scatter, at.d}, peers, at.group.me);
    dimension(at.d + 1, piece, extended(at.path, {part, Owners::all}),
              peers.empty() ? at.own : Source::output);
    if (!peers.empty()) build_.send(Source::output, piece, {Phase::gather, at.d}, peers);
  }

  void fetch(const Direct& at, Piece piece, Rank part) {
    if (std::size_t owner = owner_of(at, part); owner != at.group.me)
      build_.copy(piece, {Phase::gather, at.d}, at.group.members[owner]);
  }

  // Everybody sends everything; folded in the order of the group by everybody, so the bits agree.
  void exchange(int d, Piece piece, const Group& group, Source own) {
    std::vector<Rank> peers = others(group);
    if (peers.empty()) return;
    Purpose all{Phase::exchange, d};
    if (narrows_) own = build_.round(piece, own);
    build_.send(own, piece, all, peers);
    build_.reduce_over_sent(own, piece, all, peers, group.me);
    if (narrows_) build_.round(piece, Source::output);
  }

  // Round after round partners twice as far apart exchange all they have and fold it, the lower one first:
  // both get the same bits, and after log2 p rounds everybody has. Members beyond the largest power of two
  // fold into a partner first and get the result from it.
  void doubling(int d, Piece piece, const Group& group, Source own) {
    auto active = std::bit_floor(group.members.size());
    if (fold_away(d, piece, group, own)) return;
    own = fold_in(d, piece, group, own);
    if (narrows_) own = build_.round(piece, own);
    for (std::size_t bit = 1; bit < active; bit *= 2) {
      Rank partner = group.members[group.me ^ bit];
      Purpose round{Phase::exchange, d, static_cast<Rank>(bit)};
      build_.send(own, piece, round, {&partner, 1});
      build_.reduce_over_sent(own, piece, round, {&partner, 1}, group.me & bit ? 1 : 0);
      own = Source::output;
      if (narrows_) build_.round(piece, own);
    }
    unfold(d, piece, group);
  }

  // Recursive halving: partners keep one half each and reduce it, until each member has its block; after the
  // next dimensions the halves come back the same way. As many blocks as the largest group has active
  // members; in a smaller group some members keep several.
  void halving(int d, Piece piece, const Group& group, const Path& path, Source own) {
    if (fold_away(d, piece, group, own)) return;
    own = fold_in(d, piece, group, own);
    halve(d, piece, group, path, own, 0, 1);
    unfold(d, piece, group);
  }

  // `label`: the lower bits of the block's number, chosen so far; the owners of block m are the members m mod
  // 2^n.
  void halve(int d, Piece piece, const Group& group, const Path& path, Source own, std::size_t label,
             std::size_t bit) {
    if (bit == std::bit_floor(static_cast<std::size_t>(grid_.fanout(d))))
      return dimension(d + 1, piece, extended(path, {static_cast<Rank>(label), Owners::power_of_two}), own);
    Piece half[] = {build_.cut(piece, 0, 2), build_.cut(piece, 1, 2)};
    if (bit >= std::bit_floor(group.members.size())) {
      halve(d, half[0], group, path, own, label, bit * 2);
      return halve(d, half[1], group, path, own, label | bit, bit * 2);
    }
    std::size_t upper = group.me & bit ? 1 : 0;
    const Piece &mine = half[upper], &theirs = half[1 - upper];
    Rank partner = group.members[group.me ^ bit];
    build_.send(own, theirs, {Phase::scatter, d}, {&partner, 1});
    build_.reduce(own, mine, {Phase::scatter, d}, {&partner, 1}, upper);
    halve(d, mine, group, path, Source::output, label | (upper ? bit : 0), bit * 2);
    build_.send(Source::output, mine, {Phase::gather, d}, {&partner, 1});
    build_.copy(theirs, {Phase::gather, d}, partner);
  }

  // Members beyond the largest power of two: member 2^n + i hands its share to member i and gets the result
  // from it. True when that is all this rank does.
  bool fold_away(int d, Piece piece, const Group& group, Source own) {
    std::size_t active = std::bit_floor(group.members.size());
    if (group.me < active) return false;
    Rank partner = group.members[group.me - active];
    build_.send(own, piece, {Phase::fold, d}, {&partner, 1});
    build_.copy(piece, {Phase::unfold, d}, partner);
    return true;
  }

  Source fold_in(int d, Piece piece, const Group& group, Source own) {
    std::size_t extra = group.me + std::bit_floor(group.members.size());
    if (extra >= group.members.size()) return own;
    build_.reduce(own, piece, {Phase::fold, d}, {&group.members[extra], 1}, 0);
    return Source::output;
  }

  void unfold(int d, Piece piece, const Group& group) {
    std::size_t extra = group.me + std::bit_floor(group.members.size());
    if (extra < group.members.size())
      build_.send(Source::output, piece, {Phase::unfold, d}, {&group.members[extra], 1});
  }

  // Row after row of as many blocks as the ring has members; a row may be short where this group is smaller
  // than the largest one of its dimension.
  void ring(int d, Piece piece, const Group& group, const Path& path, Source own) {
    int members = static_cast<int>(group.members.size()), parts = grid_.fanout(d);
    std::vector<Piece> blocks;
    for (int part = 0; part < parts; ++part) blocks.push_back(build_.cut(piece, part, parts));
    for (int row = 0; row < parts; row += members) {
      auto block = [&](int b) {
        return row + b < parts ? &blocks[static_cast<std::size_t>(row + b)] : nullptr;
      };
      ring_row(d, block, blocks.data(), group, path, own);
    }
  }

  template <class Block>
  void ring_row(int d, const Block& block, const Piece* all, const Group& group, const Path& path,
                Source own) {
    int members = static_cast<int>(group.members.size());
    int way = lane_ % 2 == 0 ? 1 : members - 1;  // odd lanes run the other way around
    int me = static_cast<int>(group.me);
    Rank next = group.members[static_cast<std::size_t>((me + way) % members)];
    Rank previous = group.members[static_cast<std::size_t>((me + members - way) % members)];
    // In step t I pass on the block that is t behind me: after members - 1 steps I hold my own block,
    // complete.
    auto behind = [&](int t) { return block((me + (members - way) * (t % members)) % members); };
    for (int t = 1; t < members; ++t) {
      const Piece *sent = behind(t), *received = behind(t + 1);
      if (sent) build_.send(t == 1 ? own : Source::output, *sent, {Phase::scatter, d}, {&next, 1});
      if (received) build_.reduce(own, *received, {Phase::scatter, d}, {&previous, 1}, 1);
    }
    if (const Piece* mine = behind(0))
      dimension(d + 1, *mine, extended(path, {static_cast<Rank>(mine - all), Owners::all}),
                members == 1 ? own : Source::output);
    for (int t = 0; t + 1 < members; ++t) {
      const Piece *sent = behind(t), *received = behind(t + 1);
      if (sent) build_.send(Source::output, *sent, {Phase::gather, d}, {&next, 1});
      if (received) build_.copy(*received, {Phase::gather, d}, previous);
    }
  }

  static std::vector<Rank> others(const Group& group) {
    std::vector<Rank> ranks = group.members;
    ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(group.me));
    return ranks;
  }

  static Path extended(Path path, Turn turn) {
    path.push_back(turn);
    return path;
  }

  const Grid& grid_;
  Rank rank_;
  std::vector<Algorithm> algorithm_;
  std::size_t lane_;
  int shift_;
  bool narrows_;  // elements travel narrower
  PlanBuilder& build_;
};

// The grid as one lane sees it: dimensions and algorithms in its own order.
class LaneOrder {
 public:
  LaneOrder(const Grid& grid, const PlanChoice& choice, std::size_t lane)
      : natural_(grid), algorithm_(choice.algorithm) {
    if (!choice.order.empty()) {
      order_ = choice.order[lane];
      permuted_ = grid.permuted(order_);
      for (std::size_t i = 0; i < algorithm_.size(); ++i)
        algorithm_[i] = choice.algorithm[static_cast<std::size_t>(choice.order[lane][i])];
    }
    check_end();
  }

  const Grid& grid() const { return permuted_ ? *permuted_ : natural_; }
  const std::vector<Algorithm>& algorithm() const { return algorithm_; }
  /// Of the grid's dimensions; empty: the natural one.
  std::span<const int> order() const { return order_; }

 private:
  void check_end() const {
    bool followed = false;
    for (int d = grid().dimensions(); d-- > 0;) {
      Algorithm algorithm = algorithm_[static_cast<std::size_t>(d)];
      if (grid().fanout(d) == 1) continue;
      if (followed && is_final(algorithm))
        throw Error(
            fmt::format("dimension {} is reduced by {} but not the last one", d, algorithm_name(algorithm)),
            "it leaves everything with everybody", "choose another algorithm for it");
      followed = true;
    }
  }

  const Grid& natural_;
  std::span<const int> order_;
  std::optional<Grid> permuted_;
  std::vector<Algorithm> algorithm_;
};

}  // namespace

void check_choice(const Grid& grid, const PlanChoice& choice) {
  std::size_t lanes = choice.share.size();
  if (choice.algorithm.size() != static_cast<std::size_t>(grid.dimensions()))
    throw Error(fmt::format("{} algorithms for {} dimensions", choice.algorithm.size(), grid.dimensions()));
  if (std::all_of(choice.share.begin(), choice.share.end(), [](auto share) { return share == 0; }))
    throw Error("no lane carries a share of the buffer");
  if (std::any_of(choice.share.begin(), choice.share.end(), [](auto share) { return share > kMostShare; }))
    throw Error(fmt::format("the share of a lane is more than {}", kMostShare));
  if ((!choice.rail.empty() && choice.rail.size() != lanes) ||
      (!choice.order.empty() && choice.order.size() != lanes))
    throw Error(fmt::format("rails or orders do not match the {} lanes", lanes));
  for (std::size_t lane = 0; lane < lanes; ++lane) LaneOrder(grid, choice, lane);
}

Plan make_plan(const Grid& grid, Rank rank, const PlanChoice& choice) {
  check_choice(grid, choice);
  PlanBuilder builder(grid, rank);
  for (const LaneCut& cut : cut_lanes(choice.share, choice.rail)) {
    LaneOrder order(grid, choice, cut.lane);
    LanePlanner(order.grid(), rank, order.algorithm(), cut.lane, choice, builder)
        .plan(builder.begin_lane(cut, order.order()));
  }
  Plan plan = builder.take();
  plan.name = describe(grid, choice);
  plan.segment = choice.segment;
  plan.window = choice.window;
  plan.lanes = static_cast<LaneId>(choice.share.size());
  return plan;
}

std::string describe(const Grid& grid, const PlanChoice& choice) {
  std::string text;
  for (int d = 0; d < grid.dimensions(); ++d)
    text += fmt::format("{}{} {} {}", d ? " x " : "", grid.fanout(d), grid.dimension(d).name,
                        algorithm_name(choice.algorithm[static_cast<std::size_t>(d)]));
  if (choice.share.size() > 1) text += fmt::format(", {} lanes", choice.share.size());
  auto [least, most] = std::minmax_element(choice.share.begin(), choice.share.end());
  for (std::size_t lane = 0; lane < choice.share.size() && *least != *most; ++lane)
    text += fmt::format("{}{}", lane ? ":" : " ", choice.share[lane]);
  if (!choice.wire.is_exact()) text += ", " + describe(choice.wire);
  return text;
}

}  // namespace ddl
