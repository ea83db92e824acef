// What is known of each communicator, and the hooks of all that makes one. Thread safety: all functions.
#pragma once

#include <mpi.h>

#include <atomic>

#include "interpose/mpi/state.hpp"

namespace ddl::mpi {

/// How many communicators have been deleted: what is known of a handle holds until the next one is.
inline std::atomic<unsigned> deletions{0};
/// Adopts MPI_COMM_WORLD and MPI_COMM_SELF, with whose end we leave the job.
void adopt_world();
/// The state of a communicator, or null when its creation was not seen.
CommState* state_of(MPI_Comm comm);
/// Also which of the threads asks, from 1; 0 where MPI allows one at a time.
CommState* state_of(MPI_Comm comm, unsigned& thread);
void release(CommState* comm);
/// The state for the starts of one persistent request, which all ranks of the communicator make together: MPI
/// lets each rank start its requests in an order of its own. To be released.
CommState* make_state_of_request(MPI_Comm comm);
/// While it lives, every communicator has this state for the calls of this thread.
class StateInstead {
 public:
  explicit StateInstead(CommState* state);
  ~StateInstead();
  StateInstead(const StateInstead&) = delete;
  StateInstead& operator=(const StateInstead&) = delete;
};
int comm_dup(MPI_Comm comm, MPI_Comm* created);
int comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* created);
int comm_idup(MPI_Comm comm, MPI_Comm* created, MPI_Request* request);
int comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* created, MPI_Request* request);
int comm_free(MPI_Comm* comm);
int comm_disconnect(MPI_Comm* comm);
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

}  // namespace ddl::mpi
