// PlanChoice: everything a plan depends on besides grid and rank; and how it is chosen for a size.
//
// Candidates are made from the grid, and ranked by the cost model. All of it is pure and takes the same
// arguments on all ranks, so that all choose alike.
#pragma once

#include <vector>

#include "core/plan/cost.hpp"
#include "core/plan/grid.hpp"
#include "core/plan/plan.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {

/// How one dimension does its verbs. Names in algorithm_name().
enum class Algorithm : std::uint8_t {
  direct,  // reduce-scatter and all-gather, everybody with everybody: one step each; right inside a host
  ring,  // reduce-scatter and all-gather around a ring: each link carries each byte once; right between hosts
  exchange,  // all-reduce in one step: everybody sends everything to everybody; right for tiny messages
  doubling,  // all-reduce in log2 p steps, everything each time: recursive doubling; tiny messages, many
             // hosts
  halving,   // reduce-scatter by recursive halving, all-gather by doubling (Rabenseifner): 2 log2 p steps
  funnel,    // all send everything to one owner, who goes on alone and sends the result back: few messages
};
inline constexpr int kAlgorithms = 6;
const char* algorithm_name(Algorithm algorithm);
/// True for those that leave everything with everybody, so that no dimension can follow.
constexpr bool is_final(Algorithm algorithm) {
  return algorithm == Algorithm::exchange || algorithm == Algorithm::doubling;
}
/// True for those that cut the buffer into a part for each: a few elements are not worth it, and how many
/// messages those take depends on how many there are.
constexpr bool cuts(Algorithm algorithm) { return !is_final(algorithm) && algorithm != Algorithm::funnel; }

inline constexpr std::uint32_t kMostShare = 1 << 20;

/// Equal on all ranks.
struct PlanChoice {
  std::vector<Algorithm> algorithm;  // per dimension of the grid; final ones only where nothing follows
  // Per lane its weight: lane i carries share[i] / sum of the buffer; 0: none. Odd lanes run rings the other
  // way around.
  std::vector<std::uint32_t> share = {1};  // each at most kMostShare
  std::vector<RailId> rail;                // per lane; empty: lane i on rail i
  // Per lane the dimensions in the order they are reduced; empty: 0, 1, ...
  std::vector<std::vector<int>> order;
  Bytes segment = 0;
  int window = 4;
  WireFormat wire = {};  // what elements travel as
  int shift = 0;         // of the owners of funnels
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

/// In how many ways the owners of a choice's funnels are shifted for calls of that size class, so that those
/// under way together do not all load the links of one host; at most kMostShifts. 1: they stay. The bits of
/// the result are the same.
inline constexpr int kMostShifts = 16;
int shifts(const Grid& grid, const PlanChoice& choice, Bytes bytes);

/// What is known about the machine when a plan is chosen; equal on all ranks.
struct PlanLimits {
  RailId rails = 1;
  Bytes staging = 0;  // shared memory of the communicator: what a choice needs of it stays below
  Bytes segment = 0;  // asked for by the user, 0: free choice
  Machine machine{};
  bool single_copy = false;  // ranks may read the memory of others of their host
  bool slow_lines = false;   // see lines_come_slowly()
};

struct Candidate {
  PlanChoice choice;
  Prediction predicted;
};

/// No segment is planned to be shorter.
inline constexpr Bytes kLeastSegment = 2 << 10;
/// Below this a buffer is not cut for the sake of overlap: it would be more messages than there is to
/// overlap.
inline constexpr Bytes kLeastCut = 16 << 10;
/// All blocks of a segment of a collective other than all-reduce together: what suits the caches.
inline constexpr Bytes kSegmentOfAll = 1 << 20;
/// A second rail costs messages: not for less than this on each.
inline constexpr Bytes kLeastLane = 4 << 10;
/// Head and slack of one staging block.
inline constexpr Bytes kBlockOverhead = 256;

/// Bytes per second of each rail, and the first of those that have most.
std::vector<double> rail_rates(const PlanLimits& limits);
RailId fastest_rail(const PlanLimits& limits);

/// Largest buffer of the class that `bytes` falls in: plans are made and kept per class.
Bytes size_class(Bytes bytes);

/// Direct within hosts, rings between them: works everywhere, the yardstick for everything else. Its segment
/// is for the caller to set.
PlanChoice plain_choice(const Grid& grid, LaneId lanes);

/// A handful of choices for a buffer of that many bytes, the one predicted to be the fastest first; no two
/// differ in their segment alone. Never empty. All have that wire format.
std::vector<Candidate> candidates(const Grid& grid, Bytes bytes, const PlanLimits& limits,
                                  const WireFormat& wire = {});

/// The first candidate for the size class.
PlanChoice choose(const Grid& grid, Bytes bytes, const PlanLimits& limits);

/// The first candidate's segment and lanes, but a ring in every dimension; the segment cut to staging.
PlanChoice ring_choice(const Grid& grid, Bytes bytes, const PlanLimits& limits, const WireFormat& wire = {});

/// For the least calls: the first rank hears from all others, then they hear from it, so that it leaves
/// first. What ranks that share a core do next is mostly a broadcast or scatter from there: after an exchange
/// those that leave before it wait for their turn in vain (4 ranks on two cores, a broadcast of 4 bytes after
/// a barrier: 6 us, after this 0.3, both together 7 either way). Barriers alone take 4.0 us by exchange, 6.0
/// like this, Open MPI's 5.3.
PlanChoice funnel_choice(const Grid& grid);

/// Staging that the plan of any rank takes at most: a block for each of its sends within the host.
Bytes staging_need(const Grid& grid, const PlanChoice& choice);
/// What one call's segments may take of all the staging of a rank: several are under way at once.
constexpr Bytes staging_of_a_call(Bytes of_a_rank) { return of_a_rank / 4 / 4096 * 4096; }

}  // namespace ddl
