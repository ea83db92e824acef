// Sends and receives of one group on communicators of our own, whose calls are done one after the other. In a
// group the program's order of them means nothing, to each other and to collectives, and could let ranks wait
// for each other: so every rank takes them after its collectives, pair by pair, in an order of the pairs that
// all have in common; then the first that is not done yet has both its ranks. Thread safety: a pure function
// of its argument and of the ranks of its communicators.
#pragma once

#include <vector>

#include "interpose/nccl/call.hpp"

namespace ddl::nccl {

/// Collectives in the program's order, then the sends and receives, then the ends of operations. What a rank
/// sends to itself and its receive become one send that has an `out`.
void bring_into_common_order(std::vector<Call>& calls);

}  // namespace ddl::nccl
