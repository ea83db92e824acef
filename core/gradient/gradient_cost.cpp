#include "core/gradient/gradient_cost.hpp"

#include <vector>

#include "core/collective/communicator.hpp"
#include "core/gradient/sparse_rule.hpp"

namespace ddl {
namespace {

PlanChoice choice_for(const Grid& grid, Bytes bytes, const PlanLimits& limits, const WireFormat& wire) {
  return candidates(grid, size_class(bytes), limits, wire)[0].choice;
}

double seconds_of(const Grid& grid, Bytes bytes, const PlanLimits& limits, const WireFormat& wire) {
  return predict(grid, choice_for(grid, bytes, limits, wire), bytes, limits.machine).seconds;
}

// Operations that are under way together keep wire and cores busy as the segments of one do.
double seconds_together(const Grid& grid, PlanChoice choice, Bytes all, int under_way,
                        const Machine& machine) {
  choice.window *= under_way;
  return predict(grid, choice, all, machine).seconds;
}

}  // namespace

FusedCost predict_fused(const Grid& grid, const FusionRule& rule, Bytes bytes, std::size_t calls,
                        const PlanLimits& limits, const WireFormat& wire) {
  FusedCost cost;
  const std::vector<Part> parts(calls, Part{{DType::float32, Op::sum, wire}, bytes / sizeof(float)});
  const std::size_t in_a_batch = cut_batches(parts, rule.largest_batch)[0].size();
  cost.batches = divide_up(calls, in_a_batch);
  cost.batch = in_a_batch * bytes;
  PlanChoice alone = choice_for(grid, bytes, limits, wire);
  alone.segment = bytes;
  alone.window = 1;
  cost.alone = seconds_together(grid, alone, calls * bytes, Communicator::kMostOpen, limits.machine);
  const PlanChoice fused = choice_for(grid, cost.batch, limits, wire);
  const double copies = 2 * static_cast<double>(cost.batch) * limits.machine.local.beta;
  cost.fused = seconds_of(grid, sizeof(std::int64_t), limits, {}) + copies +
               seconds_together(grid, fused, calls * bytes, kBatchesUnderWay, limits.machine);
  return cost;
}

SparseCost predict_sparse(const Grid& grid, const SparseSettings& settings, Bytes bytes,
                          const PlanLimits& limits, const WireFormat& wire) {
  SparseCost cost;
  cost.of_chunks = chunks_of(bytes / sizeof(float));
  cost.sent_chunks = chunks_sent(settings, cost.of_chunks, 2 * settings.warm_up);
  cost.whole = seconds_of(grid, bytes, limits, wire);
  cost.norms = seconds_of(grid, cost.of_chunks * sizeof(float), limits, {});
  cost.chunks = seconds_of(grid, cost.sent_chunks * kChunk * sizeof(float), limits, wire);
  cost.memory = static_cast<double>(bytes) * (limits.machine.gamma + limits.machine.local.beta);
  return cost;
}

}  // namespace ddl
