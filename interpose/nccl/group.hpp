// Groups of one thread: what is called between the outer ncclGroupStart and ncclGroupEnd is one unit. Calls
// that move data are recorded and replayed to the original, in their order, at the outer end; so whoever
// serves them can look at the whole first. The original's group is started lazily: at that replay, or as soon
// as a call comes that cannot wait (what it points to belongs to the program, or it looks at the current
// device); from then on the rest of the group goes straight there.
//
// Calls on hierarchical communicators wait for the outer end in any case, because how they go must not
// depend on what else is in the group: there those without a plan join the original's group, the others
// follow it.
//
// What is ours waits for the outer end in any case: first communicators are created, then calls on ours are
// submitted in their order, then the original's group ends.
//
// What the original would have refused at once, it refuses at the end of the group instead.
// Thread safety: a group belongs to its thread.
#pragma once

#include "interpose/nccl/call.hpp"
#include "interpose/nccl/creation.hpp"
#include "interpose/nccl/hierarchies.hpp"

namespace ddl::nccl {

/// How many groups this thread has begun, one in the other.
inline constinit thread_local int group_depth = 0;
inline bool in_group() { return group_depth > 0; }

/// Whether a call is nobody's but the original's: by far the cheapest way.
inline bool passes() { return !is_watched.load(std::memory_order_acquire) && !in_group(); }

/// Performs the call, or records it when this thread is in a group.
ncclResult_t submit(Call call) noexcept;

/// Before any other call that has its place in the order of a group: all that was recorded goes first.
void open_group() noexcept;

/// This thread's group has begun with a communicator that is made meanwhile: its end says so.
void note_pending_in_group();
void create_at_group_end(Creation creation);
/// These two now, or when this thread's group has ended.
void set_up_when_created(PendingSetup setup);
void set_up_when_split(Creation split);
/// Before a communicator ends in a group: what the group has of its calls joins the original's, without a
/// plan.
void finish_calls_on(ncclComm_t comm) noexcept;
/// The original writes the new communicator to `created` in its own time, at the end of this group at the
/// latest.
void note_created_in_group(ncclComm_t* created, int rank, int size);

// The hooks.
ncclResult_t group_start();
ncclResult_t group_end();
ncclResult_t group_simulate_end(ncclSimInfo_t* info);

}  // namespace ddl::nccl
