// What a plan sends between hosts.
#pragma once

#include "core/plan/plan.hpp"

namespace ddl::test {

/// Elements that this rank hands to other hosts over one rail for a segment cut like that.
inline Elements wire_elements(const Plan& plan, const SliceTable& table, RailId rail) {
  Elements elements = 0;
  for (const Step& step : plan.steps)
    if (step.verb == Verb::send && step.fabric == Fabric::wire && step.rail == rail)
      elements += table.of(step).count * step.peers;
  return elements;
}

}  // namespace ddl::test
