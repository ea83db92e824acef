// Communicators: each gets its engine state in the call that creates it, and loses it in the call that frees
// it; until then its handle cannot mean another one. (As an attribute it would be safe from frees that we
// do not see, but Open MPI takes half a microsecond for that, and another half to find out that a duplicate
// does not get it.)
//
// Its identity follows from what its members know without talking: the communicator it is made of, how many
// were made of that before, and, where one call makes several, its lowest rank in the job.
#include "interpose/mpi/comms.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "interpose/mpi/comm_table.hpp"
#include "interpose/mpi/init.hpp"
#include "interpose/mpi/requests.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

constexpr std::uint64_t kWorld = 1, kSelf = 2, kFresh = 3;  // what has no communicator it is made of

CommTable& communicators() {
  static auto& all = *new CommTable;  // for exit handlers
  return all;
}

// Of what MPI_Finalize frees first. Communicators that the program has not freed go with the job.
int on_delete_self(MPI_Comm, int, void*, void*) {
  leave_job();
  for (CommState* left : communicators().take_all()) release(left);
  return MPI_SUCCESS;
}

// Callbacks of the program, in the original, may still make calls on it.
int freed(MPI_Comm* comm, const Original<int(MPI_Comm*)>& original) {
  const MPI_Comm handle = comm ? *comm : MPI_COMM_NULL;
  CommState* const known = state().active ? communicators().begin_to_free(handle) : nullptr;
  int result = MPI_ERR_OTHER;  // where it throws
  auto settle = [&](void*) {
    if (result != MPI_SUCCESS)
      communicators().keep(handle, known);
    else if (communicators().take_out(handle, known))
      release(known);
  };
  const std::unique_ptr<CommState, decltype(settle)> at_end(known, settle);
  result = original(comm);
  return result;
}

// Ranks of the job that are in the communicator; empty when one is in another job (spawned processes).
std::vector<int> members_of(MPI_Comm comm) {
  static MPI_Group world = [] {
    MPI_Group group;
    PMPI_Comm_group(MPI_COMM_WORLD, &group);
    return group;
  }();
  thread_local std::vector<int> here;  // 0, 1, 2, ...
  int size = 0;
  MPI_Group group;
  PMPI_Comm_group(comm, &group);
  PMPI_Group_size(group, &size);
  while (here.size() < static_cast<std::size_t>(size)) here.push_back(static_cast<int>(here.size()));
  std::vector<int> members(static_cast<std::size_t>(size));
  PMPI_Group_translate_ranks(group, size, here.data(), world, members.data());
  PMPI_Group_free(&group);
  if (std::count(members.begin(), members.end(), MPI_UNDEFINED)) members.clear();
  return members;
}

CommState* make_state(std::uint64_t identity, Rank size, Rank me, ddl_comm* engine) {
  auto* created = new CommState;
  created->size = size;
  created->me = me;
  created->identity = identity;
  created->engine = engine;
  created->reason = "no memory for another communicator";
  return created;
}

void attach(MPI_Comm comm, std::uint64_t identity, Rank size, Rank me, ddl_comm* engine) {
  communicators().add(comm, make_state(identity, size, me, engine));
}

void adopt(MPI_Comm comm, const std::vector<int>& members, std::uint64_t identity) {
  const State& s = state();
  auto size = static_cast<Rank>(members.size());
  auto me = static_cast<Rank>(std::find(members.begin(), members.end(), s.rank) - members.begin());
  attach(comm, identity, size, me, s.api->comm_create(s.job, identity, size, members.data(), me));
}

std::uint64_t identity_of_next(CommState& parent) {
  return state().api->identity(parent.identity, ++parent.created, 0);
}

void attach_duplicate(const CommState& of, std::uint64_t identity, MPI_Comm created) {
  attach(created, identity, of.size, of.me, state().api->comm_dup(of.engine, identity));
}

int duplicated(MPI_Comm parent, int result, const MPI_Comm* created) {
  if (result != MPI_SUCCESS || !state().active) return result;
  CommState* from = state_of(parent);
  if (from && from->engine) attach_duplicate(*from, identity_of_next(*from), *created);
  return result;
}

// A duplicate under way. The program gets a request of ours, because it may use the communicator as soon as
// it is complete. The identity is that of the call, and so is the handle, which Open MPI knows by then: the
// place of it may be gone (Fortran's is on the stack of its wrapper).
class Duplicate : public OriginalWork {
 public:
  Duplicate(CommState& of, MPI_Comm created, MPI_Request request)
      : of_(of), identity_(identity_of_next(of)), created_(created) {
    request_ = request;
    of_.users.fetch_add(1, std::memory_order_relaxed);
  }
  ~Duplicate() override { release(&of_); }
  int finish() override {
    if (error_ == MPI_SUCCESS) attach_duplicate(of_, identity_, created_);
    return error_;
  }

 private:
  CommState& of_;
  const std::uint64_t identity_;
  const MPI_Comm created_;
};

// Without requests of ours the duplicate stays unknown, alike on all ranks.
int duplicating(MPI_Comm parent, int result, const MPI_Comm* created, MPI_Request* request) {
  if (result != MPI_SUCCESS || !state().active || !state().api->nonblocking(state().job)) return result;
  CommState* from = state_of(parent);
  if (!from || !from->engine) return result;
  return make_request(std::make_unique<Duplicate>(*from, *created, *request), request);
}

// What a call has made that all ranks of `parent` make together. Those that get no communicator of it count
// the call too.
int made_of(MPI_Comm parent, int result, const MPI_Comm* created) {
  if (result != MPI_SUCCESS || !state().active) return result;
  CommState* from = state_of(parent);
  if (!from) return result;
  std::uint64_t number = ++from->created;
  if (!created || *created == MPI_COMM_NULL) return result;  // ours are no intercommunicators, so it is none
  std::vector<int> members = members_of(*created);
  if (members.empty()) return result;
  auto lowest = static_cast<std::uint64_t>(*std::min_element(members.begin(), members.end()));
  adopt(*created, members, state().api->identity(from->identity, number, lowest + 1));
  return result;
}

// What only its members have made of `parent`: how many times, with that tag, they know.
int made_by_group(MPI_Comm parent, int tag, int result, const MPI_Comm* created) {
  if (result != MPI_SUCCESS || !state().active || *created == MPI_COMM_NULL) return result;
  CommState* from = state_of(parent);
  std::vector<int> members = from ? members_of(*created) : std::vector<int>();
  if (members.empty()) return result;
  const ddl_engine_api* api = state().api;
  std::uint64_t group = api->identity(from->identity, static_cast<std::uint64_t>(tag), members.size());
  for (int member : members) group = api->identity(group, static_cast<std::uint64_t>(member), 0);
  std::uint64_t number = 0;
  {
    std::lock_guard lock(from->mutex);
    number = ++from->created_by_group[group];
  }
  adopt(*created, members, api->identity(group, number, 0));
  return result;
}

}  // namespace

void adopt_world() {
  State& s = state();
  PMPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete_self, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  std::vector<int> world = members_of(MPI_COMM_WORLD), self = members_of(MPI_COMM_SELF);
  adopt(MPI_COMM_WORLD, world, s.api->identity(0, kWorld, 0));
  if (CommState* of_world = state_of(MPI_COMM_WORLD); of_world && of_world->engine)
    s.api->comm_warm_up(of_world->engine);
  adopt(MPI_COMM_SELF, self, s.api->identity(0, kSelf, static_cast<std::uint64_t>(self[0])));
}

namespace {

// A loop asks for the same communicator again and again.
struct Asked {
  MPI_Comm comm = MPI_COMM_NULL;
  unsigned deletions = 0;
  CommState* state = nullptr;
  unsigned thread = 0;
  CommState* instead = nullptr;
};

// Looking up what a thread has of its own costs some nanoseconds: not where MPI allows one thread at a time.
Asked& asked_last() {
  static Asked by_any_thread;
  if (!state().several_threads) return by_any_thread;
  static std::atomic<unsigned> threads{0};
  thread_local Asked by_this_thread;
  if (by_this_thread.thread == 0) by_this_thread.thread = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return by_this_thread;
}

}  // namespace

StateInstead::StateInstead(CommState* state) { asked_last().instead = state; }
StateInstead::~StateInstead() { asked_last().instead = nullptr; }

CommState* state_of(MPI_Comm comm, unsigned& thread) {
  Asked& last = asked_last();
  thread = last.thread;
  if (last.instead) return last.instead;
  unsigned deleted = deletions.load(std::memory_order_acquire);
  if (comm == last.comm && deleted == last.deletions) return last.state;
  CommState* const found = communicators().find(comm);
  if (found) last = {comm, deleted, found, thread};
  return found;
}

CommState* state_of(MPI_Comm comm) {
  unsigned thread = 0;
  return state_of(comm, thread);
}

void release(CommState* comm) {
  if (comm->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // After MPI_Finalize has closed the job, its communicators are gone with it.
  if (comm->engine && state().job) state().api->comm_free(comm->engine);
  delete comm;
}

CommState* make_state_of_request(MPI_Comm comm) {
  CommState& from = *state_of(comm);
  const std::uint64_t identity = identity_of_next(from);
  return make_state(identity, from.size, from.me, state().api->comm_of_request(from.engine, identity));
}

int comm_dup(MPI_Comm comm, MPI_Comm* created) {
  return duplicated(comm, DDL_NEXT(MPI_Comm_dup)(comm, created), created);
}

int comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* created) {
  return duplicated(comm, DDL_NEXT(MPI_Comm_dup_with_info)(comm, info, created), created);
}

int comm_idup(MPI_Comm comm, MPI_Comm* created, MPI_Request* request) {
  return duplicating(comm, DDL_NEXT(MPI_Comm_idup)(comm, created, request), created, request);
}

// Open MPI 4 does not declare it.
int comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* created, MPI_Request* request) {
  const auto original =
      Original<int(MPI_Comm, MPI_Info, MPI_Comm*, MPI_Request*)>::from(next().MPI_Comm_idup_with_info);
  return duplicating(comm, original(comm, info, created, request), created, request);
}

int comm_free(MPI_Comm* comm) { return freed(comm, DDL_NEXT(MPI_Comm_free)); }

int comm_disconnect(MPI_Comm* comm) { return freed(comm, DDL_NEXT(MPI_Comm_disconnect)); }

int comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* created) {
  return made_of(comm, DDL_NEXT(MPI_Comm_create)(comm, group, created), created);
}

int comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* created) {
  return made_by_group(comm, tag, DDL_NEXT(MPI_Comm_create_group)(comm, group, tag, created), created);
}

int comm_split(MPI_Comm comm, int color, int key, MPI_Comm* created) {
  return made_of(comm, DDL_NEXT(MPI_Comm_split)(comm, color, key, created), created);
}

int comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* created) {
  return made_of(comm, DDL_NEXT(MPI_Comm_split_type)(comm, type, key, info, created), created);
}

int cart_create(MPI_Comm comm, int dims_n, const int dims[], const int periods[], int reorder,
                MPI_Comm* created) {
  return made_of(comm, DDL_NEXT(MPI_Cart_create)(comm, dims_n, dims, periods, reorder, created), created);
}

int cart_sub(MPI_Comm comm, const int remain[], MPI_Comm* created) {
  return made_of(comm, DDL_NEXT(MPI_Cart_sub)(comm, remain, created), created);
}

int graph_create(MPI_Comm comm, int n, const int index[], const int edges[], int reorder, MPI_Comm* created) {
  return made_of(comm, DDL_NEXT(MPI_Graph_create)(comm, n, index, edges, reorder, created), created);
}

int dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[],
                      const int destinations[], const int weights[], MPI_Info info, int reorder,
                      MPI_Comm* created) {
  int result = DDL_NEXT(MPI_Dist_graph_create)(comm, n, sources, degrees, destinations, weights, info,
                                               reorder, created);
  return made_of(comm, result, created);
}

int dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int source_weights[],
                               int outdegree, const int destinations[], const int destination_weights[],
                               MPI_Info info, int reorder, MPI_Comm* created) {
  int result =
      DDL_NEXT(MPI_Dist_graph_create_adjacent)(comm, indegree, sources, source_weights, outdegree,
                                               destinations, destination_weights, info, reorder, created);
  return made_of(comm, result, created);
}

// The two groups of an intercommunicator have nothing in common that is known here: their first rank chooses.
int intercomm_merge(MPI_Comm comm, int high, MPI_Comm* created) {
  int result = DDL_NEXT(MPI_Intercomm_merge)(comm, high, created);
  if (result != MPI_SUCCESS || !state().active) return result;
  std::vector<int> members = members_of(*created);
  if (members.empty()) return result;  // processes of another job do not know of us
  std::uint64_t identity = state().api->identity(0, kFresh, state().api->fresh_identity(state().job));
  PMPI_Bcast(&identity, 1, MPI_UINT64_T, 0, *created);
  adopt(*created, members, identity);
  return result;
}

}  // namespace ddl::mpi
