// Communicators: each gets its engine state in the call that creates it, as an attribute whose delete
// callback only unlinks it. (A table keyed by handle would be wrong: handles are used again after a free.)
#include <algorithm>
#include <atomic>

#include "interpose/mpi/front.hpp"

namespace ddl::mpi {
namespace {

// Attributes deleted so far: what a thread remembers of a communicator holds until the next.
std::atomic<unsigned> deletions{0};

int on_delete(MPI_Comm, int, void* value, void*) {
  deletions.fetch_add(1, std::memory_order_acq_rel);
  release(static_cast<CommState*>(value));
  return MPI_SUCCESS;
}

// Ranks of the job that are in the communicator; empty when one is in another job (spawned processes).
std::vector<int> members_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  std::vector<int> here(static_cast<std::size_t>(size)), members(here.size());
  for (std::size_t i = 0; i < here.size(); ++i) here[i] = static_cast<int>(i);
  MPI_Group group, world;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_translate_ranks(group, size, here.data(), world, members.data());
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  if (std::count(members.begin(), members.end(), MPI_UNDEFINED)) members.clear();
  return members;
}

// All members are in this call, so they can agree here; never later, in a collective that may be nonblocking.
void agree(MPI_Comm comm, const std::vector<int>& members, CommState& created) {
  State& s = state();
  int me = 0;
  PMPI_Comm_rank(comm, &me);
  ddl_offer mine;
  ddl_comm* prepared = s.api->comm_prepare(s.job, created.size, members.data(), me, &mine);
  std::vector<ddl_offer> all(members.size(), mine);
  if (created.size > 1) PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm);
  if (prepared && s.api->comm_start(prepared, all.data()))
    created.engine = prepared;
  else
    created.reason = "staging memory is used up (DDL_STAGING_BYTES)";
}

int adopted(int result, MPI_Comm* created) {
  if (result == MPI_SUCCESS && created && *created != MPI_COMM_NULL) adopt(*created);
  return result;
}

}  // namespace

void adopt_world() {
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &state().keyval, nullptr);
  adopt(MPI_COMM_WORLD);
  adopt(MPI_COMM_SELF);
}

void adopt(MPI_Comm comm) {
  if (!state().active) return;
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  if (inter) return;
  std::vector<int> members = members_of(comm);
  if (members.empty()) return;
  auto* created = new CommState;
  created->size = static_cast<Rank>(members.size());
  agree(comm, members, *created);
  PMPI_Comm_set_attr(comm, state().keyval, created);
}

// A loop asks for the same one again and again.
CommState* state_of(MPI_Comm comm) {
  struct Asked {
    MPI_Comm comm;
    unsigned deletions;
    CommState* state;
  };
  thread_local Asked last{MPI_COMM_NULL, 0, nullptr};
  unsigned deleted = deletions.load(std::memory_order_acquire);
  if (comm == last.comm && deleted == last.deletions) return last.state;
  void* value = nullptr;
  int found = 0;
  if (comm == MPI_COMM_NULL || PMPI_Comm_get_attr(comm, state().keyval, &value, &found) != MPI_SUCCESS ||
      !found)
    return nullptr;
  last = {comm, deleted, static_cast<CommState*>(value)};
  return last.state;
}

void release(CommState* comm) {
  if (comm->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // After MPI_Finalize has closed the job, its communicators are gone with it.
  if (comm->engine && state().job) state().api->comm_free(comm->engine);
  delete comm;
}

int comm_dup(MPI_Comm comm, MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Comm_dup)(comm, created), created);
}

int comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Comm_dup_with_info)(comm, info, created), created);
}

int comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Comm_create)(comm, group, created), created);
}

int comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Comm_create_group)(comm, group, tag, created), created);
}

int comm_split(MPI_Comm comm, int color, int key, MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Comm_split)(comm, color, key, created), created);
}

int comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Comm_split_type)(comm, type, key, info, created), created);
}

int cart_create(MPI_Comm comm, int dims_n, const int dims[], const int periods[], int reorder,
                MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Cart_create)(comm, dims_n, dims, periods, reorder, created), created);
}

int cart_sub(MPI_Comm comm, const int remain[], MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Cart_sub)(comm, remain, created), created);
}

int graph_create(MPI_Comm comm, int n, const int index[], const int edges[], int reorder, MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Graph_create)(comm, n, index, edges, reorder, created), created);
}

int dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[],
                      const int destinations[], const int weights[], MPI_Info info, int reorder,
                      MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Dist_graph_create)(comm, n, sources, degrees, destinations, weights, info,
                                                 reorder, created),
                 created);
}

int dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int source_weights[],
                               int outdegree, const int destinations[], const int destination_weights[],
                               MPI_Info info, int reorder, MPI_Comm* created) {
  return adopted(
      DDL_NEXT(MPI_Dist_graph_create_adjacent)(comm, indegree, sources, source_weights, outdegree,
                                               destinations, destination_weights, info, reorder, created),
      created);
}

int intercomm_merge(MPI_Comm comm, int high, MPI_Comm* created) {
  return adopted(DDL_NEXT(MPI_Intercomm_merge)(comm, high, created), created);
}

}  // namespace ddl::mpi
