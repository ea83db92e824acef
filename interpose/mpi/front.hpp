// The MPI front: what stands between the shim's hooks and the engine. One state per process, created in
// MPI_Init.
//
// Thread safety: as MPI's own; the state is set in MPI_Init and constant until MPI_Finalize.
#pragma once

#include <mpi.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/api/engine_api.h"
#include "core/reduce/recognise.hpp"
#include "interpose/front.h"
#include "interpose/mpi/blocks.hpp"
#include "interpose/mpi/call_buffers.hpp"

namespace ddl::mpi {

/// The engine's view of a communicator; hangs on it as an attribute, and lives until the communicator is
/// freed and the last call on it is done.
struct CommState {
  ddl_comm* engine = nullptr;  // null: its collectives use the original library
  const char* reason = "";     // then: why
  Rank size = 0, me = 0;
  std::uint64_t identity = 0;
  std::atomic<std::uint64_t> calls{0};  // that all its ranks have made alike, see call_note.hpp
  std::atomic<int> users{1};
  // Communicators made of it, by all its ranks together; and, by a group of them, of each group and tag.
  std::atomic<std::uint64_t> created{0};
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> created_by_group;
  BlockCache blocks;
  bool is_of_request = false;  // see make_comm_of_request()
};

/// Of the call that this thread makes there, see call_note.hpp.
inline std::uint64_t number_on(const CommState& comm) { return comm.calls.load(std::memory_order_relaxed); }

struct State {
  const ddl_engine_api* api = nullptr;
  ddl_job* job = nullptr;
  int rank = 0;                 // in MPI_COMM_WORLD
  bool active = false;          // every rank of the job agreed to use the engine
  bool several_threads = true;  // may be in MPI at the same time
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm own_self = MPI_COMM_NULL;  // our dup of MPI_COMM_SELF, for progress by probing
  int (*opal_progress)() = nullptr;
  int (*opal_progress_register)(int (*)()) = nullptr;
  int (*opal_progress_unregister)(int (*)()) = nullptr;
};
State& state();
const ddl_mpi_table& next();

/// The original of a hooked function, with its type.
#define DDL_NEXT(name) reinterpret_cast<decltype(&name)>(::ddl::mpi::next().name)

// init.cpp
int init(int* argc, char*** argv);
int init_thread(int* argc, char*** argv, int required, int* provided);
int finalize();

// comms.cpp
/// How many communicators have been deleted: what is known of a handle holds until the next one is.
inline std::atomic<unsigned> deletions{0};
/// Creates the keyval and adopts MPI_COMM_WORLD and MPI_COMM_SELF.
void adopt_world();
/// The state of a communicator, or null when its creation was not seen.
CommState* state_of(MPI_Comm comm);
/// Also which of the threads asks, from 1; 0 where MPI allows one at a time.
CommState* state_of(MPI_Comm comm, unsigned& thread);
void release(CommState* comm);
/// All ranks of the communicator make one for a persistent request: MPI lets each rank start these in an
/// order of its own.
MPI_Comm make_comm_of_request(MPI_Comm parent);
/// Where the program may be within a call of the library's progress.
void free_later(MPI_Comm comm);
void free_what_waits();
int comm_dup(MPI_Comm comm, MPI_Comm* created);
int comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* created);
int comm_idup(MPI_Comm comm, MPI_Comm* created, MPI_Request* request);
int comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* created, MPI_Request* request);
int comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* created);
int comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* created);
int comm_split(MPI_Comm comm, int color, int key, MPI_Comm* created);
int comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* created);
int cart_create(MPI_Comm comm, int dims_n, const int dims[], const int periods[], int reorder,
                MPI_Comm* created);
int cart_sub(MPI_Comm comm, const int remain[], MPI_Comm* created);
int graph_create(MPI_Comm comm, int n, const int index[], const int edges[], int reorder, MPI_Comm* created);
int dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[],
                      const int destinations[], const int weights[], MPI_Info info, int reorder,
                      MPI_Comm* created);
int dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int source_weights[],
                               int outdegree, const int destinations[], const int destination_weights[],
                               MPI_Info info, int reorder, MPI_Comm* created);
int intercomm_merge(MPI_Comm comm, int high, MPI_Comm* created);

// custom_ops.cpp
/// What an operation of the program's own on two bytes in a row is; nothing where it is none that we know, or
/// the type another one. The operation is called on a few chosen elements when it is first seen.
std::optional<Reduction> custom_reduction(MPI_Datatype type, MPI_Op op);
int op_free(MPI_Op* op);

// all_reduce.cpp
int allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
               MPI_Request* request);

// device_buffers.cpp
/// Of a call for which device memory could not be copied.
int report_device_failure(const char* collective, MPI_Comm comm);

// collectives.cpp
int bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
int ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request);
int reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
int ireduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
            MPI_Request* request);
int reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm);
int ireduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm, MPI_Request* request);
int reduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int ireduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                          MPI_Request* request);
int allgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
              MPI_Datatype out_type, MPI_Comm comm);
int iallgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
               MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request);
int alltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
             MPI_Datatype out_type, MPI_Comm comm);
int ialltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
              MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request);
int gather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
           MPI_Datatype out_type, int root, MPI_Comm comm);
int igather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
            MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request);
int scatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
            MPI_Datatype out_type, int root, MPI_Comm comm);
int iscatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
             MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request);
int barrier(MPI_Comm comm);
int ibarrier(MPI_Comm comm, MPI_Request* request);

// vector_collectives.cpp
int allgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
               const int displacements[], MPI_Datatype out_type, MPI_Comm comm);
int iallgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
                const int displacements[], MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request);
int gatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
            const int displacements[], MPI_Datatype out_type, int root, MPI_Comm comm);
int igatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
             const int displacements[], MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request);
int scatterv(const void* in, const int counts[], const int displacements[], MPI_Datatype in_type, void* out,
             int out_count, MPI_Datatype out_type, int root, MPI_Comm comm);
int iscatterv(const void* in, const int counts[], const int displacements[], MPI_Datatype in_type, void* out,
              int out_count, MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request);
int alltoallv(const void* in, const int in_counts[], const int in_displacements[], MPI_Datatype in_type,
              void* out, const int out_counts[], const int out_displacements[], MPI_Datatype out_type,
              MPI_Comm comm);
int ialltoallv(const void* in, const int in_counts[], const int in_displacements[], MPI_Datatype in_type,
               void* out, const int out_counts[], const int out_displacements[], MPI_Datatype out_type,
               MPI_Comm comm, MPI_Request* request);
int alltoallw(const void* in, const int in_counts[], const int in_displacements[],
              const MPI_Datatype in_types[], void* out, const int out_counts[], const int out_displacements[],
              const MPI_Datatype out_types[], MPI_Comm comm);
int ialltoallw(const void* in, const int in_counts[], const int in_displacements[],
               const MPI_Datatype in_types[], void* out, const int out_counts[],
               const int out_displacements[], const MPI_Datatype out_types[], MPI_Comm comm,
               MPI_Request* request);

// persistent.cpp
int start(MPI_Request* request);
int startall(int n, MPI_Request requests[]);
int request_free(MPI_Request* request);
int wait(MPI_Request* request, MPI_Status* status);
int waitall(int count, MPI_Request* requests, MPI_Status* statuses);

// requests.cpp
/// What a request stands for. Asked in the program's own Wait or Test, by one thread at a time.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  virtual bool is_done() = 0;
  /// Once, when it is done; an MPI error code.
  virtual int finish() = 0;
};
/// What the engine names when a call on that communicator is done; either dropped or made a request of. The
/// buffers are those that the engine has.
struct Pending;
Pending* new_pending(CommState* comm, CallBuffers buffers, std::uint64_t bytes);
void drop_pending(Pending* call);
/// Of one that was done at once, before it is dropped: brings its result where it belongs; an MPI error code.
int finish_pending(Pending* call);
/// A real MPI request for work under way. It completes in the program's own Wait or Test, through the
/// progress hook.
int make_request(Pending* call, MPI_Request* request);
int make_request(std::unique_ptr<PendingWork> work, MPI_Request* request);
/// The same without a request.
void watch(std::unique_ptr<PendingWork> work);
/// A request that is complete already.
int make_done_request(MPI_Request* request);
/// Whether this MPI library lets us into its Wait and Test: without, no request of ours is ever done.
inline bool can_make_requests() { return state().opal_progress_register && state().opal_progress_unregister; }
/// Stops completing requests; all are done when MPI_Finalize may be called.
void close_requests();
/// Moves the original library while one of its calls waits in the engine.
void move_original();

}  // namespace ddl::mpi
