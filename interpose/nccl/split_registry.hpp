// SplitRegistry: communicators that are split off from one of NCCL's may have plans as well
// (hierarchies.hpp), for which their ranks must set up. Where they meet follows from where those of their
// parent met, from the number of the split and its color: nobody has to be told.
//
// Thread safety: all; what concerns one communicator by one thread at a time, as NCCL demands.
#pragma once

#include <optional>

#include "interpose/nccl/creation.hpp"

namespace ddl::nccl {

/// Splits of this communicator are followed from now on. By every rank, before the setup ends.
void follow_splits(const Creation& parent);
/// Counts a split, which all ranks make; what is known of its communicator, which the original is about to
/// write to `at`. Nothing where it is not followed: this rank is left out, nonblocking, or the parent not
/// followed; or the original will refuse this rank's call at once, which does not count.
std::optional<Creation> next_split(ncclComm_t parent, int color, ncclComm_t* at, const ncclConfig_t* config);

}  // namespace ddl::nccl
