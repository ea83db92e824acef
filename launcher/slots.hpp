// More ranks than slots: mpirun refuses them in a page about ddl-exec, a program that the user has never
// heard of. Said here in one line about the user's own, wherever it is sure. Pure.
#pragma once

#include "launcher/allocation.hpp"
#include "launcher/options.hpp"
#include "launcher/system.hpp"

namespace ddl {

/// UsageError for more ranks than mpirun would start; where only mpirun can tell, it is left to it. `cores`:
/// of this machine, which are its slots.
void check_slots(const Options& options, const Allocation& allocation, const System& world,
                 std::uint64_t cores);

}  // namespace ddl
