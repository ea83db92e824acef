// Which of NCCL's communicators are hierarchical (core/hierarchy), how those come into being, and what
// becomes of the program's calls on them. The program sees the original's handle and nothing else.
//
// A unit is a call outside any group, or all calls of one group on one communicator: it goes by a plan when
// its only collective is an all-reduce that has one. All ranks have the same collectives of a communicator in
// a unit, and none of what else is in a group counts, messages neither; so all ranks decide alike.
//
// Thread safety: all; what concerns one communicator by one thread at a time, as NCCL demands.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/bootstrap/exchange.hpp"
#include "core/hierarchy/hierarchical_communicator.hpp"
#include "interpose/nccl/creation.hpp"

namespace ddl::nccl {

/// A communicator that the original has made, or will have when this thread's group has ended, and whose
/// setup goes on.
struct PendingSetup {
  Creation creation;
  std::unique_ptr<Exchange> rounds;
  ddl_setup_outcome outcome;
};

/// Makes all of one thread's new communicators hierarchical that are to be, and has their splits followed.
/// Where that fails on any rank, all ranks' calls are left to the original: never an error of the program's.
void finish_setups(std::vector<PendingSetup> setups) noexcept;

/// How a call on a hierarchical communicator goes that has its unit for itself. Nothing in `on`: by the
/// original, because of `why`.
PlannedCall plan(const Call& call);
/// The same for one of the calls of a group, of one or several units.
PlannedCall plan_in_group(const Call& call, std::span<const Call> group);

/// Enqueues the calls, `calls[i]` by `plans[i]`, and counts them.
ncclResult_t perform_planned(std::span<const Call> calls, std::span<const PlannedCall> plans);

/// When the process ends: nobody waits for what is left.
void abandon_hierarchies() noexcept;

/// What the program's hooks do, with the smaller communicators too. `its`: its record, if there is one.
ncclResult_t destroy_with_hierarchy(ncclComm_t comm, CommPtr record);
ncclResult_t abort_with_hierarchy(ncclComm_t comm, CommPtr record);
ncclResult_t finalize_with_hierarchy(ncclComm_t comm, const CommPtr& record);
ncclResult_t revoke_with_hierarchy(ncclComm_t comm, const CommPtr& record, int flags);
ncclResult_t async_error_with_hierarchy(ncclComm_t comm, const CommPtr& record, ncclResult_t* error);

}  // namespace ddl::nccl
