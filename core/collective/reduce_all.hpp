// A reduce-scatter of few bytes between hosts: all ranks reduce all of it, and each keeps its block.
//
// By itself it takes a message from a rank of each host to every rank of the others; an all-reduce of so few
// bytes takes as few as there are between hosts alone (core/plan/choice.hpp).
#pragma once

#include <vector>

#include "core/collective/engine.hpp"

namespace ddl {

/// A blocking call from beginning to end, by a plan whose choice says that it reduces all. `memory` is for
/// the calls of that communicator.
void run_reducing_all(Engine& engine, Communicator& communicator, const Call& call, PreparedPlan& plan,
                      std::vector<std::byte>& memory);

}  // namespace ddl
