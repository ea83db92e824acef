// How communicators come into being. With a unique id of ours all ranks meet first and decide alike: ours, or
// the original's, whose unique id then travels through the setup. With any other id the original decides.
//
// In a group everything waits for the outer end, where each rank of this thread meets in a helper thread of
// its own. What the program wants made without waiting is made meanwhile (pending.hpp), in a group too.
// Thread safety: a group belongs to its thread, see group.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {

/// One ncclCommInitRank*, as the program called it; or an ncclCommSplit, of one of our communicators, or of
/// one of the original's (split_registry.hpp).
struct Creation {
  ncclComm_t* at;
  int ranks, rank;
  ncclUniqueId id = {};
  std::vector<std::byte> config = {};  // a copy of the program's; empty where it gave none
  std::vector<std::shared_ptr<const std::string>> texts = {};  // of it
  void* context = nullptr;                                     // of the device that was current
  ncclComm_t parent = nullptr;  // ours, of a split; then of the above only `at` counts
  int color = -1, key = 0;
  int host = -1;  // this rank's, as the last setup numbered it; -1: there was none that did
};

/// "rank 1 of 4", for people.
std::string who_is(const Creation& creation);
/// Loads nothing.
bool is_our_id(const ncclUniqueId& id);
/// A creation with an id of ours, or a split: now, or at the end of this thread's group.
ncclResult_t create(Creation creation);
/// The same with the program's configuration, or none; refuses one that NCCL would refuse.
ncclResult_t create_with(const char* function, Creation creation, const ncclConfig_t* config);
/// All ranks of one thread at once; the first trouble.
ncclResult_t create_together(const std::vector<Creation>& creations);

/// One thread's new splits of the original's, where they are; `ranks` and `rank` are found out. Never an
/// error of the program's: who does not meet has no plans.
void set_up_after_split(std::vector<Creation> splits) noexcept;
/// The original's ncclCommSplit.
ncclResult_t split_original(ncclComm_t parent, int color, int key, ncclComm_t* comm, ncclConfig_t* config);

// The hooks.
ncclResult_t get_unique_id(ncclUniqueId* id);
ncclResult_t comm_init_rank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t comm_init_rank_config(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                   ncclConfig_t* config);
ncclResult_t comm_init_rank_scalable(ncclComm_t* comm, int ranks, int rank, int ids_n, ncclUniqueId* ids,
                                     ncclConfig_t* config);
ncclResult_t comm_init_all(ncclComm_t* comms, int devices_n, const int* devices);

}  // namespace ddl::nccl
