// PlanBuilder: writes a plan step by step; the planner's pen. It knows tags, slices and which fabric reaches
// whom; the algorithms above it do not.
//
// One rule: begin_flow() before the first step.
// Owns the plan until take(); refers to the grid.
#pragma once

#include <optional>
#include <span>

#include "core/plan/grid.hpp"
#include "core/plan/plan.hpp"

namespace ddl {

/// A slice of the plan under construction, with the key that all ranks give it.
struct Piece {
  SliceId slice;
  std::uint64_t key;
};

enum class Phase : std::uint64_t { scatter = 1, gather, exchange, fold, unfold, move, token };

/// What the messages of a step are for; all ranks name it alike.
struct Purpose {
  Phase phase;
  int dimension;  // in the order of the lane
  Rank round = 0;
};

/// Where a slice is: in which block of what, or in how many from that one on (see Step::blocks).
struct Place {
  Place(Source in, Rank number = 0, Rank how_many = 1)
      : source(in), block(static_cast<std::uint32_t>(number)), blocks(static_cast<std::uint32_t>(how_many)) {}
  Source source;
  std::uint32_t block, blocks;
};

/// What a lane works on: parts [first, last) of `parts` of the segment, over `rail`.
struct LaneCut {
  std::size_t lane;
  RailId rail;
  std::uint32_t first, last, parts;
};
/// The lanes that carry anything, by their weights. `rail` empty: lane i on rail i.
std::vector<LaneCut> cut_lanes(std::span<const std::uint32_t> share, std::span<const RailId> rail);

class PlanBuilder {
 public:
  PlanBuilder(const Grid& grid, Rank rank) : grid_(grid), rank_(rank), block_of_(rank) {}

  /// All that the lane works on. Its dimension i is the grid's order[i]; empty: the same.
  Piece begin_lane(const LaneCut& cut, std::span<const int> order = {});
  /// The same of that lane where the lanes take the parts of a segment in the opposite order.
  Piece mirrored(const LaneCut& cut);
  void begin_flow() { plan_.flows.push_back({static_cast<std::uint32_t>(plan_.steps.size()), 0}); }
  /// The steps from now on are about the block of that rank; before, about this rank's.
  void begin_block(Rank rank) { block_of_ = rank; }
  Piece cut(Piece piece, Rank index, Rank parts);

  /// One step per fabric that the receivers are on, the slower one first.
  void send(Place own, const Piece& piece, Purpose purpose, std::span<const Rank> to);
  /// `own_rank`: how many of the senders come before this rank in the fold.
  void reduce(Place own, const Piece& piece, Purpose purpose, std::span<const Rank> from,
              std::size_t own_rank, Place into = Source::output);
  /// The same, over a slice that this rank has just sent to the same ranks, none of whose messages proves
  /// that it has read ours: the step waits until what was sent between hosts has been read. In all other
  /// algorithms a slice is written again only by what its receivers made of it, so it has arrived; and what
  /// was sent within a host was copied or taken by then.
  void reduce_over_sent(Source own, const Piece& piece, Purpose purpose, std::span<const Rank> from,
                        std::size_t own_rank);
  void copy(const Piece& piece, Purpose purpose, Rank from, Place into = Source::output);
  /// What this rank has itself, as many blocks as `own` has; nothing happens where both are one place.
  void keep(const Piece& piece, Place own, Place into = Source::output);
  /// What this rank has of the piece, rounded to what travels, and where that is.
  Source round(const Piece& piece, Source own);
  /// Lets these ranks know that this one has opened the segment.
  void send_token(std::span<const Rank> to, Rank round = 0);
  /// Waits for the tokens of these ranks, or not at all.
  void await_tokens(std::span<const Rank> from, Rank round = 0);

  /// Puts the flows of the lanes, each of which ends before that one, in an order of turns: so no rail waits
  /// until all is handed to another.
  void take_turns(std::span<const std::size_t> ends);

  Plan take();
  Plan& plan() { return plan_; }

 private:
  Piece nothing();
  Step& add(Verb verb, Place own, Fabric fabric, const Piece& piece, Purpose purpose,
            std::span<const Rank> peers);

  const Grid& grid_;
  Rank rank_, block_of_;
  RailId rail_ = 0;
  std::span<const int> order_;
  std::optional<Piece> nothing_;
  Plan plan_;
};

}  // namespace ddl
