#include "core/plan/choice.hpp"

#include <algorithm>
#include <bit>

namespace ddl {
namespace {

// Below this many bytes a message costs its latency, whoever carries it: one step beats few bytes.
constexpr Bytes kExchangeLocal = 16 << 10;
constexpr Bytes kExchangeHosts = 8 << 10;
// A ring block on the wire: large enough to hide the cost of a message, small enough to keep several in
// flight.
constexpr Bytes kWireBlock = 64 << 10;
// A segment within a host. The blocks of a window should just not fit the second-level caches: what lies in the
// shared cache is read twice as fast as what a neighbour's core still holds (16 MiB of two ranks: 128 KiB
// 2.9 ms, 512 KiB 2.4 ms, 1 MiB 2.05 ms, 4 MiB 1.95 ms).
constexpr Bytes kLocalSegment = 1 << 20;
constexpr Bytes kLeastSegment = 2 << 10;
// Head and slack of one staging block.
constexpr Bytes kBlockOverhead = 256;
constexpr int kWindow = 4;

Bytes staging_overhead(const Grid& grid, LaneId rails) {
  return kWindow * kBlockOverhead * static_cast<Bytes>(grid.fanout(0)) * rails;
}

}  // namespace

const char* algorithm_name(Algorithm algorithm) {
  static constexpr const char* kNames[kAlgorithms] = {"direct",   "ring",    "exchange",
                                                      "doubling", "halving", "funnel"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

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
  choice.share.assign(wire && !small ? limits.rails : LaneId{1}, 1);

  Bytes segment = kLocalSegment;
  if (wire) {
    Bytes blocks = static_cast<Bytes>(grid.fanout(0)) * choice.share.size();
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

}  // namespace ddl
