// How much staging memory a choice takes: a block for each send within a host, in each segment under way.
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/plan/choice.hpp"

namespace ddl {
namespace {

// What one rank stages for a segment; the rank that most falls to.
struct Staged {
  double fraction = 0;  // of the segment
  double blocks = 0;
};

// One dimension for one piece: what is sent on the way down and up together, and in how many messages.
Staged staged_by(Algorithm algorithm, double fanout, double own_parts) {
  double rounds = std::ceil(std::log2(std::max(1.0, fanout))) + 1;
  switch (algorithm) {
    case Algorithm::direct:
      return {1, fanout + own_parts};
    case Algorithm::ring:
      return {2, 2 * fanout};
    case Algorithm::halving:
      return {3, 2 * rounds};
    case Algorithm::doubling:
      return {rounds, rounds};
    case Algorithm::exchange:
    case Algorithm::funnel:
      return {1, 1};
  }
  return {};
}

Staged staged_by_lane(const Grid& grid, const PlanChoice& choice, std::size_t lane) {
  Staged all;
  double held = 1, pieces = 1;  // part of the lane's share that a rank brings to a dimension, cut how often
  for (int i = 0; i < grid.dimensions(); ++i) {
    int d = choice.order.empty() ? i : choice.order[lane][static_cast<std::size_t>(i)];
    Algorithm algorithm = choice.algorithm[static_cast<std::size_t>(d)];
    const Dimension& dimension = grid.dimension(d);
    if (dimension.extent == 1) continue;
    double fanout = dimension.extent, smallest = dimension.smallest;
    if (algorithm == Algorithm::halving) {
      fanout = std::bit_floor(static_cast<std::uint32_t>(dimension.extent));
      smallest = std::bit_floor(static_cast<std::uint32_t>(dimension.smallest));
    }
    double own_parts = std::ceil(fanout / smallest);
    if (dimension.fabric == Fabric::local || dimension.mixed) {
      Staged here = staged_by(algorithm, dimension.extent, own_parts);
      all.fraction += here.fraction * held;
      all.blocks += here.blocks * pieces;
    }
    if (algorithm == Algorithm::funnel) continue;
    held *= std::min(1.0, own_parts / fanout);
    pieces *= own_parts;
  }
  return all;
}

}  // namespace

Bytes staging_need(const Grid& grid, const PlanChoice& choice) {
  double weights = 0, bytes = 0;
  for (std::uint32_t share : choice.share) weights += share;
  for (std::size_t lane = 0; lane < choice.share.size(); ++lane) {
    Staged staged = staged_by_lane(grid, choice, lane);
    bytes += staged.fraction * static_cast<double>(choice.segment) * choice.share[lane] / weights +
             staged.blocks * kBlockOverhead;
  }
  return static_cast<Bytes>(std::ceil(bytes)) * static_cast<Bytes>(choice.window);
}

}  // namespace ddl
