// The unique ids that this process makes, each with its rendezvous.
#pragma once

#include "core/base/env.hpp"
#include "core/bootstrap/rendezvous_id.hpp"

namespace ddl {

/// A new id. The rendezvous server is in this process until all ranks have left it. Throws Error. Thread
/// safety: all.
RendezvousId make_unique_id(const Env& env);

}  // namespace ddl
