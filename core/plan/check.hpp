// The symbolic checker: runs the plans of all ranks on contributions instead of numbers.
#pragma once

#include <string>
#include <vector>

#include "core/plan/kind.hpp"
#include "core/plan/plan.hpp"

namespace ddl {

/// What a run of plans showed. `problem` is empty when every rank ended with what the task promises, every
/// contribution to every element exactly once, nothing deadlocked, no message was left over, no message was
/// sent twice and nothing was written while a send between hosts was still reading it.
struct CheckResult {
  std::string problem;
  std::vector<Elements> wire_sent;   // per rank: elements handed to other hosts
  std::vector<Elements> local_sent;  // per rank: elements handed to ranks of its host, each receiver counted
};

/// In place where the task allows it, see Call (what is overwritten too early shows), or from input to output
/// (what is read from the wrong one shows).
enum class Buffers { one, two };

/// `plans[r]` is rank r's plan, in a send or receive rank 0 sends and rank 1 receives; runs one segment of
/// `count` elements. Time and memory are those of the plans, and a cell per element of all buffers.
CheckResult check_plans(const std::vector<Plan>& plans, Elements count, Bytes element_size,
                        Buffers buffers = Buffers::one, Task task = {});

/// Runs the plans while rank `absent` does nothing. Returns what is wrong, "" when nothing: a rank that has
/// sent it something must not come to its end.
std::string check_waits_for(const std::vector<Plan>& plans, Rank absent, Elements count, Task task);

}  // namespace ddl
