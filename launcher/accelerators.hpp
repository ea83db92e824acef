// IBM's --accelerators N as a number of ranks: one for each accelerator of every host. Pure.
#pragma once

#include "launcher/options.hpp"
#include "launcher/system.hpp"

namespace ddl {

/// The same command line with that number said in mpirun's own words, and noted in ranks_per_host. It stays
/// as it is without the option, with several programs, and where -np, slots in -H, a rankfile or the like
/// count the ranks already. UsageError as resolve_allocation().
Options with_rank_per_accelerator(Options options, const System& world);

}  // namespace ddl
