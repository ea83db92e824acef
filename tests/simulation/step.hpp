// A training step in virtual time: gradients that become ready one after the other while there is computing
// left, and the all-reduces that are made of them. Pure.
//
// What the gradients become:
//   lazy     what the engine's own rule takes waits until its threshold has come together, and is then
//            cut into batches as the engine does it (core/gradient/fusion.hpp); larger ones are one each, as
//            all are where the threshold is 0
//   sparse   of what the engine's own rule takes a share of its chunks is sent, after an all-reduce of the
//            chunks' norms, by which all ranks choose the same ones (core/gradient/sparse_rule.hpp)
// All-reduces are made in the order in which they are ready, one at a time: an engine that has several under
// way hides more. They do not slow the computing.
#pragma once

#include <functional>
#include <vector>

#include "core/base/partition.hpp"
#include "core/base/types.hpp"
#include "core/gradient/fusion.hpp"
#include "core/gradient/sparse_rule.hpp"

namespace ddl::simulation {

struct Gradient {
  Elements elements = 0;  // 0: computing alone
  double seconds = 0;     // of computing before it is ready
};

struct StepRule {
  Bytes element = 4;       // a gradient's in memory: 4 or 2
  FusionRule fusion = {};  // which wait for others
  WireRule wire{WireType::exact, Bytes{64} << 10};
  SparseSettings sparse{.warm_up = 0};
  Elements chunk = kChunk;  // elements
};

struct StepCall {
  double ready = 0;  // seconds from the start of the step
  Bytes bytes = 0;
  WireFormat wire = {};
};
/// The all-reduces of a step in their order.
std::vector<StepCall> calls_of(const std::vector<Gradient>& gradients, const StepRule& rule);

struct StepTime {
  double seconds = 0, computing = 0, reducing = 0;
  /// Of the all-reduces' time, what the step does not take longer for them.
  double hidden() const { return reducing > 0 ? (computing + reducing - seconds) / reducing : 1; }
};
/// `seconds_of` tells how long an all-reduce takes.
StepTime time_of_step(const std::vector<Gradient>& gradients, const std::vector<StepCall>& calls,
                      const std::function<double(const StepCall&)>& seconds_of);

}  // namespace ddl::simulation
