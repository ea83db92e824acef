// A training step in virtual time: gradients that become ready one after the other while there is computing
// left, and the all-reduces that are made of them. Pure.
//
// What the gradients become:
//   lazy     a tensor of up to `largest_call` bytes waits until `threshold` bytes have come together, which
//   then are one
//            all-reduce; larger ones are one each, as all are where the threshold is 0
//   sparse   of an all-reduce a share of its chunks is sent, after an all-reduce of the chunks' norms, a
//   float32 each,
//            by which all ranks choose the same ones
// All-reduces are made in the order in which they are ready, one at a time: an engine that has several under
// way hides more. They do not slow the computing.
#pragma once

#include <functional>
#include <vector>

#include "core/base/partition.hpp"
#include "core/base/types.hpp"

namespace ddl::simulation {

struct Gradient {
  Elements elements = 0;  // 0: computing alone
  double seconds = 0;     // of computing before it is ready
};

struct StepRule {
  Bytes element = 4;                      // a gradient's in memory
  Bytes threshold = 0;                    // bytes that become one all-reduce
  Bytes largest_call = Bytes{256} << 10;  // that waits for others
  double share = 1;                       // of the chunks that is sent
  Elements chunk = 32768;                 // elements
};

struct StepCall {
  double ready = 0;  // seconds from the start of the step
  Bytes bytes = 0;
};
/// The all-reduces of a step in their order.
std::vector<StepCall> calls_of(const std::vector<Gradient>& gradients, const StepRule& rule);

struct StepTime {
  double seconds = 0, computing = 0, reducing = 0;
  /// Of the all-reduces' time, what the step does not take longer for them.
  double hidden() const { return reducing > 0 ? (computing + reducing - seconds) / reducing : 1; }
};
/// `seconds_of` tells how long an all-reduce of so many bytes takes.
StepTime time_of_step(const std::vector<Gradient>& gradients, const std::vector<StepCall>& calls,
                      const std::function<double(Bytes)>& seconds_of);

}  // namespace ddl::simulation
