#include "launcher/explain_gradients.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/gradient/gradient_cost.hpp"
#include "core/gradient/sparse_rule.hpp"
#include "launcher/explain_words.hpp"

namespace ddl {
namespace {

constexpr std::size_t kCallsAtOnce = 400;

// Nothing where bits would depend on when calls come.
FusionRule rule_of(const Env& env, const Grid& grid) {
  return fusion_rule(env.deterministic ? 0 : env.lazy_bytes, grid.spans_hosts());
}

std::string fused_text(const Env& env, const Grid& grid) {
  if (env.lazy_bytes == 0) return {};
  if (env.deterministic) return "fused     nothing: DDL_DETERMINISTIC=1 overrules DDL_LAZY_BYTES\n";
  const FusionRule rule = rule_of(env, grid);
  const Bytes largest_call = std::min(rule.largest_call, rule.threshold - 1);
  return fmt::format(
      "fused     nonblocking all-reduces of up to {}, when {} have come together or one is waited for, {} at "
      "most as one\n",
      size_text(largest_call), size_text(rule.threshold), size_text(rule.largest_batch));
}

std::string sparse_text(const Env& env, const Grid& grid) {
  const SparseSettings settings = gradient_settings(env).sparse;
  if (!settings.is_on()) return {};
  if (!grid.spans_hosts()) return "sparse    nothing: there is one host\n";
  return fmt::format(
      "sparse    sums of float32 and float64 from {} on: {:g} of their chunks of {} elements in the end, "
      "after "
      "{} times whole and {} times with less and less\n",
      size_text(settings.from), settings.share, kChunk, settings.warm_up, settings.warm_up);
}

std::string fused_line(const Env& env, const Grid& grid, Bytes bytes, const PlanLimits& limits,
                       const WireFormat& wire) {
  const FusionRule rule = rule_of(env, grid);
  if (!rule.takes(bytes)) return {};
  const FusedCost cost = predict_fused(grid, rule, bytes, kCallsAtOnce, limits, wire);
  return fmt::format("            fused, {} at once in {} batches of up to {}: {}, each by itself {}, {}\n",
                     kCallsAtOnce, cost.batches, size_text(cost.batch), time_text(cost.fused),
                     time_text(cost.alone), times_text(cost.alone, cost.fused));
}

std::string sparse_line(const Env& env, const Grid& grid, Bytes bytes, const PlanLimits& limits,
                        const WireFormat& wire) {
  const SparseSettings settings = gradient_settings(env).sparse;
  if (!settings.is_on() || !grid.spans_hosts() || bytes < settings.from) return {};
  const SparseCost cost = predict_sparse(grid, settings, bytes, limits, wire);
  return fmt::format("            sparse in the end: norms {}, {} of {} chunks {}, memory {}: {}, whole {}\n",
                     time_text(cost.norms), cost.sent_chunks, cost.of_chunks, time_text(cost.chunks),
                     time_text(cost.memory), time_text(cost.sparse()), times_text(cost.whole, cost.sparse()));
}

}  // namespace

std::string gradients_text(const Env& env, const Grid& grid) {
  return fused_text(env, grid) + sparse_text(env, grid);
}

// A gradient that may be sparse is not fused.
std::string gradient_lines(const Env& env, const Grid& grid, Bytes bytes, const PlanLimits& limits,
                           const WireFormat& wire) {
  const std::string sparse = sparse_line(env, grid, bytes, limits, wire);
  return sparse.empty() ? fused_line(env, grid, bytes, limits, wire) : sparse;
}

}  // namespace ddl
