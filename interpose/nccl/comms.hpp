// Communicators: the program sees the original's handle; what we know of it hangs in a table beside it, from
// the call that creates it to the one that destroys it.
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

/// Number of ranks; 1 when nobody can tell.
int size_of(ncclComm_t comm);

struct CommFacts {
  std::uint64_t created = 0;  // so far
  int largest = 0;            // ranks
  int lowest = -1;            // of this process's ranks in communicators of that size
};
CommFacts comm_facts();

// The hooks.
ncclResult_t comm_init_rank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t comm_init_rank_config(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                   ncclConfig_t* config);
ncclResult_t comm_init_rank_scalable(ncclComm_t* comm, int ranks, int rank, int ids_n, ncclUniqueId* ids,
                                     ncclConfig_t* config);
ncclResult_t comm_init_all(ncclComm_t* comms, int devices_n, const int* devices);
ncclResult_t comm_split(ncclComm_t comm, int color, int key, ncclComm_t* created, ncclConfig_t* config);
ncclResult_t comm_shrink(ncclComm_t comm, int* excluded, int excluded_n, ncclComm_t* created,
                         ncclConfig_t* config, int flags);
ncclResult_t comm_destroy(ncclComm_t comm);
ncclResult_t comm_abort(ncclComm_t comm);

}  // namespace ddl::nccl
