// What --explain says of all-reduces that are fused (DDL_LAZY_BYTES) and of sparse gradients (DDL_SPARSE).
#pragma once

#include <string>

#include "core/base/env.hpp"
#include "core/plan/choice.hpp"

namespace ddl {

/// Which are, a line each; nothing where none is.
std::string gradients_text(const Env& env, const Grid& grid);
/// What that makes of all-reduces of float32 of so many bytes that travel like that, by the cost model.
std::string gradient_lines(const Env& env, const Grid& grid, Bytes bytes, const PlanLimits& limits,
                           const WireFormat& wire);

}  // namespace ddl
