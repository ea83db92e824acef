// The unique ids that this process makes, each with its meeting place.
#pragma once

#include "core/base/env.hpp"
#include "core/bootstrap/rendezvous_id.hpp"

namespace ddl {

/// A new id. The meeting place is in this process until all ranks have left it. Throws Error. Thread safety:
/// all.
RendezvousId make_unique_id(const Env& env);

}  // namespace ddl
