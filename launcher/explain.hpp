// --explain: the plans the engine would use, with their predicted times and the runners-up they beat, for a
// few sizes. The numbers come from the functions that the engine chooses with. Pure; nothing is started, so
// what only the other hosts know is assumed and said to be: their rails are like this machine's.
#pragma once

#include <vector>

#include "core/base/types.hpp"
#include "core/topology/nics.hpp"
#include "launcher/allocation.hpp"
#include "launcher/options.hpp"
#include "launcher/system.hpp"

namespace ddl {

/// The host of each rank as mpirun would map them: by slot, or by node when asked; from -np, the allocation
/// and DDL_FAKE_HOSTS. `cores`: slots of a host that has no number, as mpirun counts them on this machine.
std::vector<HostIndex> expected_hosts(const Options& options, const Allocation& allocation,
                                      const System& world, std::uint64_t cores);

/// Notes how many ranks each host has where -racks or -aisles make that a dimension and --accelerators does
/// not say it. UsageError when the hosts differ.
Options with_ranks_of_hosts(Options options, const Allocation& allocation, const System& world,
                            std::uint64_t cores);

/// UsageError when DDL_OPTIONS, as the ranks will see it, is not understood or its dimensions do not fit
/// them.
void check_ddl_options(const Options& options, const Allocation& allocation, const System& world,
                       std::uint64_t cores);

/// What --explain prints, for hosts whose network interfaces are like these. UsageError as
/// check_ddl_options().
std::string explain(const Options& options, const Allocation& allocation, const System& world,
                    std::uint64_t cores, const std::vector<Nic>& nics);

}  // namespace ddl
