// Which of NCCL's communicators have companions (companion.hpp), how those come into being, and what becomes
// of the program's calls on them. The program sees the original's handle and nothing else.
//
// A unit is a call outside any group, or all calls of one group on one communicator: it goes by a plan when
// its only collective is an all-reduce that has one. All ranks have the same collectives of a communicator in
// a unit, and none of what else is in a group counts, messages neither; so all ranks decide alike.
//
// Thread safety: all; what concerns one communicator by one thread at a time, as NCCL demands.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "interpose/nccl/companion.hpp"
#include "interpose/nccl/creation.hpp"

namespace ddl::nccl {

/// A communicator that the original has made, or will have when this thread's group has ended, and whose
/// ranks still meet.
struct PendingSetup {
  Creation creation;
  MeetingSeat meeting;
  ddl_setup_outcome met;
};

/// Makes the companions of all of one thread's new communicators, where they are to have some, and has their
/// splits followed. Where that fails on any rank, all ranks' calls are left to the original: never an error
/// of the program's.
void set_up_hierarchies(std::vector<PendingSetup> setups) noexcept;

/// Costs nothing where there is none.
bool has_hierarchy(ncclComm_t comm);

/// What is to be done with the calls of one or several units on communicators that have companions.
struct Route {
  struct Flat {
    Call call;
    const char* why;
  };
  std::vector<Planned> planned;  // and what is tried as a whole
  std::vector<Flat> flat;        // by the original, in this order
};
Route route(const std::vector<Call>& calls);

/// When the process ends: nobody waits for what is left.
void abandon_hierarchies() noexcept;

/// What the program's hooks do, with the smaller communicators too.
ncclResult_t destroy_with_hierarchy(ncclComm_t comm);
ncclResult_t abort_with_hierarchy(ncclComm_t comm);
ncclResult_t finalize_with_hierarchy(ncclComm_t comm);
ncclResult_t revoke_with_hierarchy(ncclComm_t comm, int flags);
ncclResult_t async_error_with_hierarchy(ncclComm_t comm, ncclResult_t* error);

}  // namespace ddl::nccl
