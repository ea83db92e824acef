// Communicators: one record for each handle that the program holds, with all that is known of it: whose it
// is, its ranks, its hierarchy, its splits. A call looks its record up once, and takes it along.
//
// A communicator is the original's, or ours (stream_comms.hpp), or still being made (pending.hpp). A handle
// whose creation was not seen (made before we were loaded, or late, by a nonblocking split) has no record; it
// gets one when it is asked for its size. What a record has of the original's is written before the program
// has the handle, and read by who uses it.
// Thread safety: all of it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "interpose/nccl/front.hpp"

namespace ddl {
class HierarchicalCommunicator;
}

namespace ddl::nccl {

struct Comm;
using CommPtr = std::shared_ptr<Comm>;
struct SplitRegistry;
struct StreamComm;

/// How it stands with a handle that was given out before its communicator was made.
struct Promise {
  CommPtr made = {};                    // null: not yet, or never
  ncclResult_t state = ncclInProgress;  // as long as nothing is made
  bool ended = false;                   // it keeps its place, so that the handle is known for good
};

struct Comm {
  enum class Owner : std::uint8_t { original, engine, nobody_yet };

  Comm(ncclComm_t of, Owner whose) : handle(of), owner(whose) {}
  bool is_ours() const { return owner == Owner::engine; }
  bool is_promised() const { return owner == Owner::nobody_yet; }
  /// Of ours; null once it was destroyed. Its record stays, so that the handle is known for good.
  std::shared_ptr<StreamComm> stream() const;
  Promise promise() const;

  const ncclComm_t handle;
  const Owner owner;
  std::atomic<int> rank{-1}, size{0};  // not known yet
  std::shared_ptr<HierarchicalCommunicator> hierarchy = {};
  std::shared_ptr<SplitRegistry> splits = {};  // where they are followed

  mutable std::mutex mutex;  // of what follows
  std::shared_ptr<StreamComm> locked_stream = {};
  Promise locked_promise = {};
  bool remembered = false;  // the table's
};

/// Its record; null where there is none.
CommPtr find(ncclComm_t comm);
/// The same for a call that goes its way; null also as long as every communicator is the original's alone,
/// which costs nothing.
CommPtr look_up(ncclComm_t comm);
/// The record of one of ours, which may be destroyed; else null.
CommPtr find_ours(ncclComm_t comm);
/// A new record, of ours or promised.
CommPtr add(ncclComm_t comm, Comm::Owner owner);
/// The record of the original's with something that look_up() is to find.
void attach(ncclComm_t comm, const std::function<void(Comm& record)>& write);
/// Each of them, at the end of the process; `body` looks none up.
void for_each(const std::function<void(Comm& record)>& body);

/// It was created. `size` 0: not known yet; `rank` -1 likewise.
void remember(ncclComm_t comm, int rank, int size);
/// Returns its record, if there was one. When it was the last communicator, the report is written.
CommPtr forget(ncclComm_t comm);

/// What every creation by the original ends with: remembers it, now or when this thread's group has ended.
ncclResult_t created(ncclResult_t result, ncclComm_t* at, int rank, int size);

/// Number of ranks; 1 when nobody can tell.
int size_of(ncclComm_t comm);

struct CommFacts {
  std::uint64_t created = 0;  // so far
  std::uint64_t alive = 0;    // of them
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
