// A call as it comes over a C boundary, in the engine's types.
#pragma once

#include <type_traits>

#include "core/api/c_types.hpp"
#include "core/api/call_api.h"
#include "core/collective/call.hpp"

namespace ddl {

static_assert(std::is_same_v<Elements, std::uint64_t>);

inline Call from_c(const ddl_collective_call& call, Nanoseconds began) {
  Call made{call.in,   call.out, call.count,        from_c(call.type), from_c(call.op),
            call.name, began,    from_c(call.kind), call.root};
  made.variant = call.variant;
  made.own = {call.combine, call.context};
  made.in_blocks = {call.in_blocks.counts, call.in_blocks.offsets};
  made.out_blocks = {call.out_blocks.counts, call.out_blocks.offsets};
  made.lengths = call.lengths;
  made.pairwise = call.pairwise != 0;
  made.rooted = call.pairwise == DDL_PAIRS_GATHER    ? Rooted::gather
                : call.pairwise == DDL_PAIRS_SCATTER ? Rooted::scatter
                                                     : Rooted::no;
  made.number = call.number;
  return made;
}

}  // namespace ddl
