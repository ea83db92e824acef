// Communicators of both kinds: the program sees the original's handle, or one of ours (stream_comms.hpp);
// what the report needs to know of it hangs in a table beside it, from the call that creates it to the one
// that destroys it.
//
// A handle whose creation was not seen (made before we were loaded, or late, by a nonblocking split) is asked
// for its size when it is needed. Thread safety: all of it.
#pragma once

#include "interpose/nccl/front.hpp"

namespace ddl::nccl {

/// `size` 0: not known yet; `rank` -1 likewise.
void remember(ncclComm_t comm, int rank, int size);
/// When it was the last one, the report is written.
void forget(ncclComm_t comm);

/// What every creation by the original ends with: remembers it, now or when this thread's group has ended.
ncclResult_t created(ncclResult_t result, ncclComm_t* at, int rank, int size);

/// Number of ranks; 1 when nobody can tell.
int size_of(ncclComm_t comm);

struct CommFacts {
  std::uint64_t created = 0;  // so far
  int largest = 0;            // ranks
  int lowest = -1;            // of this process's ranks in communicators of that size
};
CommFacts comm_facts();

// The hooks.
ncclResult_t comm_split(ncclComm_t comm, int color, int key, ncclComm_t* created, ncclConfig_t* config);
ncclResult_t comm_shrink(ncclComm_t comm, int* excluded, int excluded_n, ncclComm_t* created,
                         ncclConfig_t* config, int flags);
ncclResult_t comm_destroy(ncclComm_t comm);
ncclResult_t comm_abort(ncclComm_t comm);
ncclResult_t comm_revoke(ncclComm_t comm, int flags);

}  // namespace ddl::nccl
