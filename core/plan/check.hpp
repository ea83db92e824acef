// The symbolic checker: runs the plans of all ranks on sets of contributions instead of numbers.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.hpp"

namespace ddl {

/// What a run of plans on sets showed. `problem` is empty when every rank ended with every contribution of
/// every element exactly once, nothing deadlocked, no message was left over and no message was sent twice.
struct CheckResult {
  std::string problem;
  std::vector<Elements> wire_sent;   // per rank: elements handed to other hosts
  std::vector<Elements> local_sent;  // per rank: elements handed to ranks of its host, each receiver counted
};

/// `plans[r]` is rank r's plan; runs one segment of `count` elements.
CheckResult check_plans(const std::vector<Plan>& plans, Elements count, Bytes element_size);

}  // namespace ddl
