/* Calls with wrong arguments, which MPI refuses before anything is sent: by all ranks, and by one rank alone,
 * which must leave nothing behind. Then types that are easily taken for others. An ordinary MPI program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "persistent_names.h"

enum kind {
  BCAST,
  REDUCE,
  ALLREDUCE,
  ALLGATHER,
  ALLGATHERV,
  ALLTOALL,
  ALLTOALLV,
  ALLTOALLW,
  GATHER,
  GATHERV,
  SCATTER,
  SCATTERV,
  REDUCE_SCATTER,
  REDUCE_SCATTER_BLOCK,
  KINDS
};
enum mistake { COUNT, NO_TYPE, GAPS, DENSE, ROOT, NO_OP, BOTH_IN_PLACE, MISTAKES };
static const char* const kMistakes[MISTAKES] = {
    "a negative count", "no type",      "an uncommitted type with gaps", "an uncommitted type without gaps",
    "no such root",     "no operation", "both buffers in place"};

enum { kMostRanks = 64, kInts = 4 };
static int me, size;
static int in[kInts * kMostRanks * 2], out[kInts * kMostRanks * 2];

static void wrong(const char* what, int kind, int nonblocking) {
  if (failures++ < 10)
    fprintf(stderr, "check: rank %d: kind %d%s: %s\n", me, kind, nonblocking ? ", nonblocking" : "", what);
}

static int reduces(enum kind kind) {
  return kind == REDUCE || kind == ALLREDUCE || kind == REDUCE_SCATTER || kind == REDUCE_SCATTER_BLOCK;
}
static int has_root(enum kind kind) {
  return kind == BCAST || kind == REDUCE || (kind >= GATHER && kind <= SCATTERV);
}

/* The class of error that Open MPI gives. */
static int class_of(enum kind kind, enum mistake mistake) {
  if (mistake == COUNT) return MPI_ERR_COUNT;
  if (mistake == ROOT) return MPI_ERR_ROOT;
  if (mistake == BOTH_IN_PLACE) return kind == ALLREDUCE ? MPI_ERR_BUFFER : MPI_ERR_ARG;
  return reduces(kind) ? MPI_ERR_OP : MPI_ERR_TYPE;
}

static int refused(enum kind kind, enum mistake mistake, int nonblocking, MPI_Comm comm) {
  int counts[kMostRanks], places[kMostRanks];
  MPI_Datatype type = MPI_INT, types[kMostRanks];
  const int count = mistake == COUNT ? -1 : kInts / 2, root = mistake == ROOT ? size : 0;
  const MPI_Op op = mistake == NO_OP ? MPI_OP_NULL : MPI_SUM;
  void *from = mistake == BOTH_IN_PLACE ? MPI_IN_PLACE : in,
       *to = mistake == BOTH_IN_PLACE ? MPI_IN_PLACE : out;
  MPI_Request request = MPI_REQUEST_NULL;
  if (mistake == NO_TYPE) type = MPI_DATATYPE_NULL;
  if (mistake == GAPS) MPI_Type_vector(2, 1, 3, MPI_INT, &type);
  if (mistake == DENSE) MPI_Type_contiguous(2, MPI_INT, &type);
  for (int r = 0; r < size; ++r) {
    counts[r] = count;
    places[r] = kInts * r * (kind == ALLTOALLW ? (int)sizeof(int) : 1);
    types[r] = type;
  }
  int code = MPI_SUCCESS;
#define CALL(blocking_call, nonblocking_call, ...)                                                       \
  code = nonblocking ? nonblocking_call(__VA_ARGS__, comm, &request) : blocking_call(__VA_ARGS__, comm); \
  break
  switch (kind) {
    case BCAST:
      CALL(MPI_Bcast, MPI_Ibcast, from, count, type, root);
    case REDUCE:
      CALL(MPI_Reduce, MPI_Ireduce, from, to, count, type, op, root);
    case ALLREDUCE:
      CALL(MPI_Allreduce, MPI_Iallreduce, from, to, count, type, op);
    case ALLGATHER:
      CALL(MPI_Allgather, MPI_Iallgather, from, count, type, to, count, type);
    case ALLGATHERV:
      CALL(MPI_Allgatherv, MPI_Iallgatherv, from, count, type, to, counts, places, type);
    case ALLTOALL:
      CALL(MPI_Alltoall, MPI_Ialltoall, from, count, type, to, count, type);
    case ALLTOALLV:
      CALL(MPI_Alltoallv, MPI_Ialltoallv, from, counts, places, type, to, counts, places, type);
    case ALLTOALLW:
      CALL(MPI_Alltoallw, MPI_Ialltoallw, from, counts, places, types, to, counts, places, types);
    case GATHER:
      CALL(MPI_Gather, MPI_Igather, from, count, type, to, count, type, root);
    case GATHERV:
      CALL(MPI_Gatherv, MPI_Igatherv, from, count, type, to, counts, places, type, root);
    case SCATTER:
      CALL(MPI_Scatter, MPI_Iscatter, from, count, type, to, count, type, root);
    case SCATTERV:
      CALL(MPI_Scatterv, MPI_Iscatterv, from, counts, places, type, to, count, type, root);
    case REDUCE_SCATTER:
      CALL(MPI_Reduce_scatter, MPI_Ireduce_scatter, from, to, counts, type, op);
    default:
      CALL(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, from, to, count, type, op);
  }
  if (mistake == GAPS || mistake == DENSE) MPI_Type_free(&type);
  int is = MPI_SUCCESS;
  MPI_Error_class(code, &is);
  return is == class_of(kind, mistake);
}

/* Barriers and one more call: whoever counts calls has counted those that were refused nowhere, or
 * everywhere. */
static void go_on(int kind, int nonblocking, MPI_Comm comm) {
  int mine = me + 1, all = 0;
  MPI_Barrier(comm);
  MPI_Barrier(comm);
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
  if (all != size * (size + 1) / 2) wrong("a wrong sum afterwards", kind, nonblocking);
}

static void mistakes(MPI_Comm comm) {
  for (enum kind kind = 0; kind < KINDS; ++kind)
    for (enum mistake mistake = 0; mistake < MISTAKES; ++mistake)
      for (int way = 0; way < 4; ++way) {
        const int nonblocking = way % 2, alone = way / 2;
        if (mistake == ROOT && !has_root(kind)) continue;
        if (mistake == NO_OP && !reduces(kind)) continue;
        /* Open MPI itself looks at them on the root too late, or not at all. */
        const int is_made = mistake == GAPS || mistake == DENSE;
        if ((kind == SCATTER || kind == SCATTERV) && is_made) continue;
        ++cases_done;
        if ((!alone || me == 0) && !refused(kind, mistake, nonblocking, comm))
          wrong(kMistakes[mistake], kind, nonblocking);
        go_on(kind, nonblocking, comm);
      }
}

/* A request that one rank does not get does not count among those that all have made. */
static void persistent_mistake(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm copy;
  ++cases_done;
  if (me == 0 &&
      MPI_Allreduce_init(in, out, -1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request) == MPI_SUCCESS)
    wrong("a persistent call of -1 elements", ALLREDUCE, 1);
  MPI_Comm_dup(comm, &copy);
  go_on(KINDS, 0, copy);
  MPI_Comm_free(&copy);
}

/* One buffer for both sides, of one element; an all-reduce of that Open MPI lets pass. */
static void one_buffer(void) {
  MPI_Request request;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int nonblocking = 0; nonblocking < 2; ++nonblocking, ++cases_done) {
    const int code = nonblocking ? MPI_Ireduce(in, in, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_SELF, &request)
                                 : MPI_Reduce(in, in, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_SELF);
    int found = MPI_SUCCESS;
    MPI_Error_class(code, &found);
    if (found != MPI_ERR_ARG) wrong("one buffer", REDUCE, nonblocking);
  }
}

/* MPI's own, though no name of it says so: nobody may free them. */
static void types_by_precision(MPI_Comm comm) {
  MPI_Datatype real, three;
  double numbers[3] = {1, 2, 3};
  MPI_Request request;
  if (MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real) != MPI_SUCCESS) return; /* without Fortran */
  MPI_Type_contiguous(3, real, &three);
  MPI_Type_commit(&three);
  for (int turn = 0; turn < 3; ++turn) {
    ++cases_done;
    for (int i = 0; i < 3; ++i) numbers[i] = me == 0 ? turn + i : -1;
    if (turn < 2) MPI_Bcast(numbers, turn == 0 ? 3 : 1, turn == 0 ? real : three, 0, comm);
    if (turn == 2) MPI_Ibcast(numbers, 1, three, 0, comm, &request), MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; ++i)
      if (numbers[i] != turn + i) wrong("a wrong number of a type by precision", BCAST, turn == 2);
  }
  MPI_Type_free(&three);
}

static int copied, deleted;
static int copy_value(MPI_Datatype type, int key, void* extra, void* value, void* to, int* flag) {
  (void)type, (void)key, (void)extra;
  ++copied;
  memcpy(to, &value, sizeof value);
  return *flag = 1, MPI_SUCCESS;
}
static int delete_value(MPI_Datatype type, int key, void* value, void* extra) {
  (void)type, (void)key, (void)value, (void)extra;
  ++deleted;
  return MPI_SUCCESS;
}

/* What the program hangs on a type is copied when the program copies the type. */
static void attributes_of_types(MPI_Comm comm) {
  int key, held = 7, data[6] = {me, -1, -1, me, -1, -1};
  MPI_Datatype gaps;
  MPI_Request request;
  ++cases_done;
  MPI_Type_create_keyval(copy_value, delete_value, &key, NULL);
  MPI_Type_vector(2, 1, 3, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  MPI_Type_set_attr(gaps, key, &held);
  MPI_Ibcast(data, 1, gaps, 0, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (data[0] != 0 || data[3] != 0 || data[1] != -1) wrong("a wrong broadcast", BCAST, 1);
  if (copied || deleted) wrong("an attribute of a type was copied or deleted", BCAST, 1);
  MPI_Type_free(&gaps);
  if (deleted != 1) wrong("an attribute of a type was not deleted once", BCAST, 1);
  MPI_Type_free_keyval(&key);
}

int main(int argc, char** argv) {
  MPI_Comm comm;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* which Open MPI asks now and then */
  mistakes(comm);
  persistent_mistake(comm);
  types_by_precision(comm);
  attributes_of_types(comm);
  one_buffer();
  MPI_Comm_free(&comm);
  const int result = report();
  MPI_Finalize();
  return result;
}
