// What fusing all-reduces, and sending a share of them, would take: by the cost model (core/plan/cost.hpp).
// Pure, seconds.
#pragma once

#include "core/base/sparse_settings.hpp"
#include "core/gradient/fusion.hpp"
#include "core/plan/choice.hpp"

namespace ddl {

/// So many all-reduces that are under way together.
struct FusedCost {
  double alone = 0;  // each by itself
  double fused = 0;  // in batches, with the agreement and the copies
  std::size_t batches = 0;
  Bytes batch = 0;  // the largest
};
/// Of calls that the rule takes.
FusedCost predict_fused(const Grid& grid, const FusionRule& rule, Bytes bytes, std::size_t calls,
                        const PlanLimits& limits, const WireFormat& wire);

/// One all-reduce of a gradient.
struct SparseCost {
  double whole = 0;
  double norms = 0, chunks = 0;  // its two operations, once the share has fallen to the one asked for
  double memory = 0;             // adding to what is kept, and putting what has arrived
  Elements of_chunks = 0, sent_chunks = 0;
  double sparse() const { return norms + chunks + memory; }
};
/// Of float32.
SparseCost predict_sparse(const Grid& grid, const SparseSettings& settings, Bytes bytes,
                          const PlanLimits& limits, const WireFormat& wire);

}  // namespace ddl
