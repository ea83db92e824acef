/* Persistent collectives, each started several times and completed in every way that MPI has, results
 * verified. An ordinary MPI program: it knows nothing of who serves its calls.
 *
 *   persistent [--mpi4] [--freed]
 *
 * --mpi4 takes the names of MPI 4, which the MPI library itself may lack; --freed frees types and operations
 * before the calls that were made of them start, which Open MPI 4.1 does not outlive. */
#include <mpi.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "persistent_names.h"

enum { kInts = 600, kMostRanks = 8, kStarts = 5 };
enum kind {
  ALLREDUCE,
  BCAST,
  REDUCE,
  ALLGATHER,
  ALLGATHERV,
  REDUCE_SCATTER,
  REDUCE_SCATTER_BLOCK,
  ALLTOALL,
  ALLTOALLV,
  ALLTOALLW,
  GATHER,
  GATHERV,
  SCATTER,
  SCATTERV,
  BARRIER,
  KINDS
};
static const char* const kNames[KINDS] = {"allreduce",      "bcast",    "reduce",   "allgather", "allgatherv",
                                          "reduce_scatter", "rs_block", "alltoall", "alltoallv", "alltoallw",
                                          "gather",         "gatherv",  "scatter",  "scatterv",  "barrier"};

/* What is not in the headers of every MPI library. */
typedef int allreduce_init(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
typedef int bcast_init(void*, int, MPI_Datatype, int, MPI_Comm, MPI_Info, MPI_Request*);
typedef int barrier_init(MPI_Comm, MPI_Info, MPI_Request*);
static allreduce_init* make_allreduce = MPI_Allreduce_init;
static bcast_init* make_bcast = MPI_Bcast_init;
static barrier_init* make_barrier = MPI_Barrier_init;

static void take_names_of_mpi4(void) {
  *(void**)&make_allreduce = dlsym(RTLD_DEFAULT, "MPI_Allreduce_init");
  *(void**)&make_bcast = dlsym(RTLD_DEFAULT, "MPI_Bcast_init");
  *(void**)&make_barrier = dlsym(RTLD_DEFAULT, "MPI_Barrier_init");
}

static long cases, failures;
static int rank, size;

struct call { /* block b of rank r in start s is r * 1000 + b * 100 + s + i */
  enum kind kind;
  MPI_Comm comm;
  int me, ranks, root;
  int *in, *out, *counts, *places, *byte_places;
  MPI_Datatype* types;
  MPI_Request request;
};

static int value(int from, int block, int start, int i) { return from * 1000 + block * 100 + start + i; }

static int gives_one(enum kind k) {
  return k == ALLREDUCE || k == BCAST || k == REDUCE || k == ALLGATHER || k == ALLGATHERV || k == GATHER ||
         k == GATHERV;
}
static int is_for_root(enum kind k) { return k == REDUCE || k == GATHER || k == GATHERV; }

static void init(struct call* c, MPI_Datatype type, MPI_Op op) {
  int *in = c->in, *out = c->out, n = kInts, root = c->root, *counts = c->counts, *places = c->places;
  MPI_Comm comm = c->comm;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Request* r = &c->request;
  switch (c->kind) {
    case ALLREDUCE:
      make_allreduce(in, out, n, type, op, comm, info, r);
      break;
    case BCAST:
      make_bcast(c->me == root ? in : out, n, type, root, comm, info, r);
      break;
    case REDUCE:
      MPI_Reduce_init(in, out, n, type, op, root, comm, info, r);
      break;
    case ALLGATHER:
      MPI_Allgather_init(in, n, type, out, n, type, comm, info, r);
      break;
    case ALLGATHERV:
      MPI_Allgatherv_init(in, n, type, out, counts, places, type, comm, info, r);
      break;
    case REDUCE_SCATTER:
      MPI_Reduce_scatter_init(in, out, counts, type, op, comm, info, r);
      break;
    case REDUCE_SCATTER_BLOCK:
      MPI_Reduce_scatter_block_init(in, out, n, type, op, comm, info, r);
      break;
    case ALLTOALL:
      MPI_Alltoall_init(in, n, type, out, n, type, comm, info, r);
      break;
    case ALLTOALLV:
      MPI_Alltoallv_init(in, counts, places, type, out, counts, places, type, comm, info, r);
      break;
    case ALLTOALLW:
      MPI_Alltoallw_init(in, counts, c->byte_places, c->types, out, counts, c->byte_places, c->types, comm,
                          info, r);
      break;
    case GATHER:
      MPI_Gather_init(in, n, type, out, n, type, root, comm, info, r);
      break;
    case GATHERV:
      MPI_Gatherv_init(in, n, type, out, counts, places, type, root, comm, info, r);
      break;
    case SCATTER:
      MPI_Scatter_init(in, n, type, out, n, type, root, comm, info, r);
      break;
    case SCATTERV:
      MPI_Scatterv_init(in, counts, places, type, out, n, type, root, comm, info, r);
      break;
    default:
      make_barrier(comm, info, r);
      break;
  }
}

static struct call make(enum kind kind, MPI_Comm comm, MPI_Datatype type, MPI_Op op) {
  struct call c = {kind, comm, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, MPI_REQUEST_NULL};
  MPI_Comm_rank(comm, &c.me);
  MPI_Comm_size(comm, &c.ranks);
  c.root = c.ranks - 1;
  const size_t n = (size_t)c.ranks;
  c.in = malloc(n * kInts * sizeof(int));
  c.out = malloc(n * kInts * sizeof(int));
  c.counts = malloc(n * sizeof(int));
  c.places = malloc(n * sizeof(int));
  c.byte_places = malloc(n * sizeof(int));
  c.types = malloc(n * sizeof(MPI_Datatype));
  for (int r = 0; r < c.ranks; ++r) {
    c.counts[r] = kInts;
    c.places[r] = r * kInts;
    c.byte_places[r] = r * kInts * (int)sizeof(int);
    c.types[r] = type;
  }
  init(&c, type, op);
  /* Open MPI has read them by now, so programs may count on that. */
  for (int r = 0; r < c.ranks; ++r) c.counts[r] = c.places[r] = c.byte_places[r] = -1000000;
  return c;
}

static void fill(struct call* c, int start) {
  for (int b = 0; b < (gives_one(c->kind) ? 1 : c->ranks); ++b)
    for (int i = 0; i < kInts; ++i) c->in[b * kInts + i] = value(c->me, b, start, i);
  memset(c->out, 0x77, (size_t)c->ranks * kInts * sizeof(int));
}

static int sum(const struct call* c, int block, int start, int i) {
  int all = 0;
  for (int r = 0; r < c->ranks; ++r) all += value(r, block, start, i);
  return all;
}

static int expected(const struct call* c, int b, int start, int i) {
  switch (c->kind) {
    case ALLREDUCE:
    case REDUCE:
      return sum(c, 0, start, i);
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_BLOCK:
      return sum(c, c->me, start, i);
    case BCAST:
      return value(c->root, 0, start, i);
    case SCATTER:
    case SCATTERV:
      return value(c->root, c->me, start, i);
    case ALLTOALL:
    case ALLTOALLV:
    case ALLTOALLW:
      return value(b, c->me, start, i);
    default:
      return value(b, 0, start, i);
  }
}

static void verify(const struct call* c, int start, const char* how) {
  ++cases;
  if (c->kind == BARRIER || (is_for_root(c->kind) && c->me != c->root)) return;
  if (c->kind == BCAST && c->me == c->root) return;
  const int is_one = c->kind <= REDUCE || c->kind == REDUCE_SCATTER || c->kind == REDUCE_SCATTER_BLOCK ||
                     c->kind == SCATTER || c->kind == SCATTERV;
  for (int b = 0; b < (is_one ? 1 : c->ranks); ++b)
    for (int i = 0; i < kInts; ++i)
      if (c->out[b * kInts + i] != expected(c, b, start, i)) {
        if (failures++ < 10)
          fprintf(stderr, "check: %s, %s, rank %d of %d, start %d, block %d element %d: %d, not %d\n",
                  kNames[c->kind], how, c->me, c->ranks, start, b, i, c->out[b * kInts + i],
                  expected(c, b, start, i));
        return;
      }
}

static void drop(struct call* c) {
  if (c->request != MPI_REQUEST_NULL) MPI_Request_free(&c->request);
  free(c->in);
  free(c->out);
  free(c->counts);
  free(c->places);
  free(c->byte_places);
  free(c->types);
}

/* The ways in which a start is seen to be over. */
enum way { WAIT, WAITALL, WAITANY, WAITSOME, TEST, TESTALL, TESTANY, TESTSOME, GET_STATUS, WAYS };
static const char* const kWays[WAYS] = {"wait",    "waitall", "waitany",  "waitsome",  "test",
                                        "testall", "testany", "testsome", "get_status"};

static void complete(MPI_Request* request, enum way way) {
  MPI_Status status;
  int done = 0, index = -1;
  switch (way) {
    case WAITALL:
      MPI_Waitall(1, request, MPI_STATUSES_IGNORE);
      break;
    case WAITANY:
      MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE);
      break;
    case WAITSOME:
      MPI_Waitsome(1, request, &done, &index, MPI_STATUSES_IGNORE);
      break;
    case TEST:
      while (!done) MPI_Test(request, &done, MPI_STATUS_IGNORE);
      break;
    case TESTALL:
      while (!done) MPI_Testall(1, request, &done, MPI_STATUSES_IGNORE);
      break;
    case TESTANY:
      while (!done) MPI_Testany(1, request, &index, &done, &status);
      break;
    case TESTSOME:
      while (!done) MPI_Testsome(1, request, &done, &index, MPI_STATUSES_IGNORE);
      break;
    default:
      while (way == GET_STATUS && !done) MPI_Request_get_status(*request, &done, &status);
      MPI_Wait(request, &status);
  }
  const int names_it = way == WAITANY || way == WAITSOME || way == TESTANY || way == TESTSOME;
  if ((names_it && index != 0) || *request == MPI_REQUEST_NULL) {
    ++failures;
    fprintf(stderr, "check: %s names request %d\n", kWays[way], index);
  }
}

/* One start after the other, completed in each way after another one and before it. */
static void one_by_one(enum kind kind, MPI_Comm comm) {
  for (int way = 0; way < WAYS; ++way) {
    struct call c = make(kind, comm, MPI_INT, MPI_SUM);
    for (int start = 0; start < kStarts; ++start) {
      const enum way this_one = start == 2 ? (enum way)way : start == 1 ? WAITALL : WAIT;
      fill(&c, start);
      MPI_Start(&c.request);
      complete(&c.request, this_one);
      verify(&c, start, kWays[this_one]);
    }
    MPI_Wait(&c.request, MPI_STATUS_IGNORE); /* inactive: at once */
    if (c.request == MPI_REQUEST_NULL) ++failures;
    drop(&c);
  }
}

/* All kinds together, and with them a send and a receive that are nothing to an engine. */
static void all_at_once(MPI_Comm comm) {
  struct call calls[KINDS];
  MPI_Request requests[KINDS + 2];
  int got = -1, mine, me, ranks;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  for (int k = 0; k < KINDS; ++k) {
    calls[k] = make((enum kind)k, comm, MPI_INT, MPI_SUM);
    requests[k + 1] = calls[k].request;
  }
  MPI_Recv_init(&got, 1, MPI_INT, (me + 1) % ranks, 5, comm, &requests[0]);
  MPI_Send_init(&mine, 1, MPI_INT, (me + ranks - 1) % ranks, 5, comm, &requests[KINDS + 1]);
  for (int start = 0; start < 3; ++start) {
    for (int k = 0; k < KINDS; ++k) fill(&calls[k], start);
    mine = me + start * 100;
    MPI_Startall(KINDS + 2, requests);
    if (start == 0) MPI_Waitall(KINDS + 2, requests, MPI_STATUSES_IGNORE);
    if (start == 1)
      for (int k = KINDS + 1; k >= 0; --k) MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
    for (int left = start == 2 ? KINDS + 2 : 0, some, indices[KINDS + 2]; left > 0; left -= some)
      MPI_Waitsome(KINDS + 2, requests, &some, indices, MPI_STATUSES_IGNORE);
    for (int k = 0; k < KINDS; ++k) verify(&calls[k], start, "startall");
    if (got != (me + 1) % ranks + start * 100) ++failures;
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[KINDS + 1]);
  for (int k = 0; k < KINDS; ++k) drop(&calls[k]);
}

static void add(void* in, void* inout, int* n, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *n; ++i) ((int*)inout)[i] += ((int*)in)[i];
}

/* Ranks may start what they have made in orders of their own, blocking calls in between. */
static void in_any_order(MPI_Comm comm, MPI_Op op) {
  struct call calls[KINDS];
  int me, ranks, sum = -1;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  for (int k = 0; k < KINDS; ++k) calls[k] = make((enum kind)k, comm, MPI_INT, op);
  for (int start = 0; start < 3; ++start) {
    for (int k = 0; k < KINDS; ++k) fill(&calls[k], start);
    for (int i = 0; i < KINDS; ++i) {
      const int k = me % 2 ? KINDS - 1 - i : (i + me) % KINDS;
      MPI_Start(&calls[k].request);
      if (i == 3 + me) MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
    }
    if (sum != ranks * (ranks - 1) / 2) ++failures;
    for (int k = 0; k < KINDS; ++k) MPI_Wait(&calls[k].request, MPI_STATUS_IGNORE);
    for (int k = 0; k < KINDS; ++k) verify(&calls[k], start, "in any order");
  }
  for (int k = 0; k < KINDS; ++k) drop(&calls[me % 2 ? KINDS - 1 - k : k]);
}

/* What the request was made of may be freed before it starts, and a request while it is under way. */
static void freed(MPI_Comm comm) {
  for (int k = 0; k < KINDS; ++k) {
    MPI_Datatype type;
    MPI_Op op;
    const int reduces = k == ALLREDUCE || k == REDUCE || k == REDUCE_SCATTER || k == REDUCE_SCATTER_BLOCK;
    MPI_Type_contiguous(1, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(add, 1, &op);
    struct call c = make((enum kind)k, comm, reduces ? MPI_INT : type, op);
    MPI_Type_free(&type);
    MPI_Op_free(&op);
    for (int start = 0; start < 2; ++start) {
      fill(&c, start);
      MPI_Start(&c.request);
      MPI_Wait(&c.request, MPI_STATUS_IGNORE);
      verify(&c, start, "freed type and operation");
    }
    fill(&c, 2);
    MPI_Start(&c.request);
    MPI_Request_free(&c.request);
    MPI_Barrier(comm); /* of the collectives of a communicator, but says nothing of the end of others */
    struct call last = make(ALLREDUCE, comm, MPI_INT, MPI_SUM);
    fill(&last, 3);
    MPI_Start(&last.request);
    MPI_Wait(&last.request, MPI_STATUS_IGNORE);
    verify(&last, 3, "after a freed one");
    drop(&last);
    MPI_Barrier(comm);
    drop(&c);
  }
}

/* What the original has to do. */
static void between_groups(void) {
  if (size < 2) return;
  MPI_Comm half, between;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 11, &between);
  int mine = rank, got = -1, want = 0;
  for (int r = 1 - rank % 2; r < size; r += 2) want += r;
  MPI_Request request;
  MPI_Allreduce_init(&mine, &got, 1, MPI_INT, MPI_SUM, between, MPI_INFO_NULL, &request);
  for (int start = 0; start < 2; ++start, ++cases) {
    got = -1;
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (got != want && failures++ < 10)
      fprintf(stderr, "check: an intercommunicator: %d, not %d\n", got, want);
  }
  MPI_Request_free(&request);
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int frees = 0;
  for (int a = 1; a < argc; ++a) {
    if (strcmp(argv[a], "--mpi4") == 0) take_names_of_mpi4();
    if (strcmp(argv[a], "--freed") == 0) frees = 1;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm on[] = {MPI_COMM_WORLD, copy, MPI_COMM_SELF};
  MPI_Op in_order; /* which an engine may leave to the MPI library */
  MPI_Op_create(add, 0, &in_order);
  for (int c = 0; c < 3; ++c) {
    for (int k = 0; k < KINDS; ++k) one_by_one((enum kind)k, on[c]);
    all_at_once(on[c]);
    in_any_order(on[c], MPI_SUM);
    in_any_order(on[c], in_order);
  }
  if (frees) freed(copy);
  between_groups();
  MPI_Op_free(&in_order);
  MPI_Comm_free(&copy);
  long mine[2] = {cases, failures}, all[2];
  MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("check: %ld cases %ld failures\n", all[0], all[1]);
  MPI_Finalize();
  return all[1] ? 1 : 0;
}
