/* Small nonblocking calls that are made again and again, with some of them under way: the same ones with
 * other buffers at once, completed in other orders and ways on each rank, among blocking calls and messages.
 * Every result is verified. An ordinary MPI program: it knows nothing of who serves its calls.
 *
 *   kept_starts */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "matrix.h"

enum { kMost = 300, kSlots = 8, kSteps = 6000, kDepths = 5 };

/* Those from ALLGATHERV on have lists of counts. */
enum kind {
  ALLREDUCE,
  BCAST,
  REDUCE,
  ALLGATHER,
  REDUCE_SCATTER_BLOCK,
  ALLTOALL,
  GATHER,
  SCATTER,
  BARRIER,
  ALLGATHERV,
  ALLTOALLV,
  GATHERV,
  SCATTERV,
  REDUCE_SCATTER,
  KINDS
};
static const char* const kNames[KINDS] = {
    "iallreduce", "ibcast",   "ireduce",   "iallgather",     "ireduce_scatter_block",
    "ialltoall",  "igather",  "iscatter",  "ibarrier",       "iallgatherv",
    "ialltoallv", "igatherv", "iscatterv", "ireduce_scatter"};

/* Of reductions. That of one call is freed as soon as the call has begun. */
enum operation { PREDEFINED_SUM, OWN_SUM, LARGEST_OF_ONE_CALL };

static int size, me;
static MPI_Comm comms[2];
static MPI_Op own_sum;
static pthread_t program;

static void is_called_by_us(void) {
  if (!pthread_equal(pthread_self(), program)) ++failures;
}
static void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  is_called_by_us();
  for (int i = 0; i < *count; ++i) ((int*)inout)[i] += ((int*)in)[i];
}
static void take_larger(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  is_called_by_us();
  for (int i = 0; i < *count; ++i)
    if (((int*)in)[i] > ((int*)inout)[i]) ((int*)inout)[i] = ((int*)in)[i];
}

struct started {
  enum kind kind;
  enum operation operation;
  int root, n, seed;
  int *in, *out;
  int* lists; /* counts and places */
  MPI_Request request;
} calls[kSlots];

static int is_reduction(enum kind kind) {
  return kind == ALLREDUCE || kind == REDUCE || kind == REDUCE_SCATTER_BLOCK || kind == REDUCE_SCATTER;
}
static int has_in_blocks(enum kind kind) {
  return kind == ALLTOALL || kind == SCATTER || kind == ALLTOALLV || kind == SCATTERV ||
         kind == REDUCE_SCATTER_BLOCK || kind == REDUCE_SCATTER;
}
static int has_out_blocks(enum kind kind) {
  return kind == ALLGATHER || kind == ALLTOALL || kind == GATHER || kind == ALLGATHERV || kind == ALLTOALLV ||
         kind == GATHERV;
}
static int has_result(const struct started* call) {
  if (call->kind == BARRIER) return 0;
  if (call->kind == BCAST) return me != call->root;
  return (call->kind != REDUCE && call->kind != GATHER && call->kind != GATHERV) || me == call->root;
}
/* With lists there is a gap of an int behind each block of what is not reduced. */
static int stride(const struct started* call) {
  return call->n + (call->kind >= ALLGATHERV && call->kind != REDUCE_SCATTER);
}

static int expected(const struct started* call, int block, int i) {
  const enum kind kind = call->kind;
  const int to = has_in_blocks(kind) ? me : 0;
  if (!is_reduction(kind)) {
    const int is_of_root = kind == BCAST || kind == SCATTER || kind == SCATTERV;
    return value(is_of_root ? call->root : block, to, i, call->seed);
  }
  int sum = 0, largest = value(0, to, i, call->seed);
  for (int r = 0; r < size; ++r) {
    const int one = value(r, to, i, call->seed);
    sum += one;
    if (one > largest) largest = one;
  }
  return call->operation == LARGEST_OF_ONE_CALL ? largest : sum;
}

static void start(struct started* call, MPI_Comm comm, int as_one) {
  const int n = call->n, root = call->root, apart = stride(call);
  int *in = call->in, *out = call->out, *lengths = call->lists, *at = call->lists + size;
  MPI_Request* request = &call->request;
  for (int b = 0; b < (has_in_blocks(call->kind) ? size : 1); ++b)
    for (int i = 0; i < n; ++i) in[b * apart + i] = value(me, b, i, call->seed);
  for (int i = 0; i < size * (kMost + 1); ++i) out[i] = kUntouched;
  for (int r = 0; r < size; ++r) lengths[r] = n, at[r] = r * apart;
  MPI_Datatype type = MPI_INT;
  MPI_Op op = call->operation == PREDEFINED_SUM ? MPI_SUM : own_sum;
  const int has_op = call->operation == LARGEST_OF_ONE_CALL;
  if (has_op) MPI_Op_create(take_larger, 1, &op);
  int count = n;
  if (as_one) { /* element of so many ints, that is freed while the call is under way */
    MPI_Type_contiguous(n, MPI_INT, &type);
    MPI_Type_commit(&type);
    count = 1;
  }
  switch (call->kind) {
    case ALLREDUCE:
      MPI_Iallreduce(in, out, n, MPI_INT, op, comm, request);
      break;
    case BCAST:
      MPI_Ibcast(me == root ? in : out, count, type, root, comm, request);
      break;
    case REDUCE:
      MPI_Ireduce(in, out, n, MPI_INT, op, root, comm, request);
      break;
    case ALLGATHER:
      MPI_Iallgather(in, count, type, out, count, type, comm, request);
      break;
    case REDUCE_SCATTER_BLOCK:
      MPI_Ireduce_scatter_block(in, out, n, MPI_INT, op, comm, request);
      break;
    case ALLTOALL:
      MPI_Ialltoall(in, count, type, out, count, type, comm, request);
      break;
    case GATHER:
      MPI_Igather(in, count, type, out, count, type, root, comm, request);
      break;
    case SCATTER:
      MPI_Iscatter(in, count, type, out, count, type, root, comm, request);
      break;
    case BARRIER:
      MPI_Ibarrier(comm, request);
      break;
    case ALLGATHERV:
      MPI_Iallgatherv(in, count, type, out, lengths, at, MPI_INT, comm, request);
      break;
    case ALLTOALLV:
      MPI_Ialltoallv(in, lengths, at, MPI_INT, out, lengths, at, MPI_INT, comm, request);
      break;
    case GATHERV:
      MPI_Igatherv(in, count, type, out, lengths, at, MPI_INT, root, comm, request);
      break;
    case SCATTERV:
      MPI_Iscatterv(in, lengths, at, MPI_INT, out, count, type, root, comm, request);
      break;
    default:
      MPI_Ireduce_scatter(in, out, lengths, MPI_INT, op, comm, request);
      break;
  }
  if (as_one) MPI_Type_free(&type);
  if (has_op) MPI_Op_free(&op);
}

static void check(const struct started* call) {
  const int blocks = has_out_blocks(call->kind) ? size : 1, apart = stride(call);
  ++cases_done;
  for (int b = 0; b < blocks && has_result(call); ++b)
    for (int i = 0; i < apart; ++i) {
      const int got = call->out[b * apart + i], want = i < call->n ? expected(call, b, i) : kUntouched;
      if (got != want && failures++ < 10)
        fprintf(stderr,
                "check: %s of %d ints, root %d, rank %d of %d: element %d of block %d is %d, not %d\n",
                kNames[call->kind], call->n, call->root, me, size, i, b, got, want);
    }
}

static void finish(struct started* call, int how) {
  MPI_Request several[2] = {MPI_REQUEST_NULL, call->request};
  int done = 0, which = 0;
  if (how == 0) MPI_Wait(&call->request, MPI_STATUS_IGNORE);
  if (how == 1)
    while (!done) MPI_Test(&call->request, &done, MPI_STATUS_IGNORE);
  if (how == 2) MPI_Waitall(2, several, MPI_STATUSES_IGNORE);
  if (how == 3) MPI_Waitany(2, several, &which, MPI_STATUS_IGNORE);
  call->request = MPI_REQUEST_NULL;
  check(call);
}

static void make_others(unsigned step) {
  int mine[2] = {me, (int)step}, got[2] = {0, 0};
  const int next = (me + 1) % size, last = (me + size - 1) % size;
  if (step % 16 == 3) {
    MPI_Allreduce(mine, got, 2, MPI_INT, MPI_SUM, comms[step % 2]);
    if (got[0] != size * (size - 1) / 2 || got[1] != size * (int)step) ++failures;
  }
  if (step % 16 == 7) {
    MPI_Sendrecv(mine, 2, MPI_INT, next, 1, got, 2, MPI_INT, last, 1, comms[0], MPI_STATUS_IGNORE);
    if (got[0] != last || got[1] != (int)step) ++failures;
  }
  if (step % 512 == (unsigned)(100 * me)) usleep(300);
}

/* `depth` calls are under way at most. Of many shapes: more than anybody would remember. */
static void round_of(int depth, int of_many_shapes) {
  static unsigned drawn = 1;
  for (unsigned step = 0; step < kSteps / kDepths; ++step) {
    drawn = drawn * 1103515245u + 12345u;
    const unsigned draw = drawn >> 8;
    struct started* call = &calls[step % kSlots];
    /* The same kind for a while: it comes again and again. */
    call->kind = (enum kind)(of_many_shapes ? draw % KINDS : step / 20 % KINDS);
    call->n = of_many_shapes ? 1 + (int)(draw / 32 % 150)
                             : (int)(step / 40 % 3 == 0 ? 1 : 5 * (step / 40 % 3) * 25);
    call->root = (int)(draw / 16) % size;
    call->seed = (int)step;
    call->operation = step / 10 % 2 ? OWN_SUM : PREDEFINED_SUM;
    if (depth == kDepths - 1 && step % 97 == 50) call->operation = LARGEST_OF_ONE_CALL;
    start(call, comms[step / 100 % 2], step % 11 == 5);
    if ((int)step >= depth)
      finish(&calls[(step - (unsigned)depth) % kSlots], (int)(step * 7 + (unsigned)me) % 4);
    make_others(step);
  }
  for (int left = depth; left > 0; --left)
    finish(&calls[(kSteps / kDepths - left) % kSlots], (left + me) % 4);
}

/* Of about as many elements, which rank 1 calls by another name now and then. Where the shorter ones are made
 * in another way, both ranks do so. */
static void by_other_names(void) {
  int in[256], out[256];
  for (int i = 0; i < 400; ++i) {
    const int is_short = i % 10 == 9, n = is_short ? 200 + i % 40 : 250 + i % 7;
    for (int e = 0; e < n; ++e) in[e] = value(me, 0, e, i), out[e] = kUntouched;
    MPI_Request request;
    MPI_Iallreduce(in, out, n, me == 1 && is_short ? MPI_INT32_T : MPI_INT, MPI_SUM, comms[1], &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ++cases_done;
    for (int e = 0; e < n; ++e) {
      int sum = 0;
      for (int r = 0; r < size; ++r) sum += value(r, 0, e, i);
      if (out[e] != sum) ++failures;
    }
  }
}

/* With unequal shares, whose counts are those of a kept call: what is kept is forgotten while it is under
 * way, when an operation gets the handle of a freed one, and other counts come. */
static void unequal_shares(void) {
  enum { kCalls = 18, kShare = 20 };
  const size_t most = (size_t)(kShare * size);
  int(*counts)[kCalls] = malloc((size_t)size * sizeof *counts);
  int* all = malloc(most * sizeof(int));
  int* shares = malloc(kCalls * most * sizeof(int));
  MPI_Request requests[kCalls];
  MPI_Op operation, other;
  MPI_Op_create(add, 1, &operation);
  MPI_Op_create(add, 1, &other);
  for (size_t i = 0; i < most; ++i) all[i] = (int)i + me;
  int* lists = malloc(kCalls * (size_t)size * sizeof(int));
  for (int call = 0; call < kCalls; ++call)
    for (int r = 0; r < size; ++r) lists[call * size + r] = counts[r][call] = 1 + (call + r) % (kShare - 1);
  for (int round = 0; round < 6; ++round) {
    int mine = me, sum = 0;
    for (int i = 0; i < 3; ++i) MPI_Allreduce(&mine, &sum, 1, MPI_INT, other, comms[1]);
    const int started = round < 3 ? 1 : kCalls;
    if (started == kCalls && me == size - 1) usleep(2000);
    for (int call = 0; call < started; ++call)
      MPI_Ireduce_scatter(all, shares + (size_t)call * most, lists + call * size, MPI_INT,
                          call == 0 ? operation : MPI_SUM, comms[1], &requests[call]);
    if (started == kCalls) {
      MPI_Op_free(&other);
      MPI_Op_create(add, 1, &other);
      MPI_Allreduce(&mine, &sum, 1, MPI_INT, other, comms[1]);
    }
    MPI_Waitall(started, requests, MPI_STATUSES_IGNORE);
    if (sum != size * (size - 1) / 2) ++failures;
    for (int call = 0; call < started; ++call, ++cases_done) {
      int first = 0;
      for (int r = 0; r < me; ++r) first += counts[r][call];
      for (int i = 0; i < counts[me][call]; ++i)
        if (shares[(size_t)call * most + (size_t)i] != size * (first + i) + size * (size - 1) / 2) ++failures;
    }
  }
  MPI_Op_free(&operation);
  MPI_Op_free(&other);
  free(all);
  free(shares);
  free(lists);
  free(counts);
}

/* What lies behind the numbers of a pair is the program's. */
static void pairs_with_gaps(void) {
  enum { kPairs = 7, kDepth = 3, kCalls = 300 };
  struct pair {
    double number;
    int at, gap;
  } in[kDepth][kPairs], out[kDepth][kPairs];
  MPI_Request requests[kDepth];
  for (int call = 0; call < kCalls + kDepth; ++call) {
    const int slot = call % kDepth;
    if (call >= kDepth) {
      MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
      ++cases_done;
      for (int i = 0; i < kPairs; ++i) {
        const int largest = (call - kDepth + i) % size;
        const struct pair* got = &out[slot][i];
        if (got->number != 2 * size || got->at != largest || got->gap != kUntouched + i) ++failures;
      }
    }
    for (int i = 0; i < kPairs; ++i) {
      in[slot][i] = (struct pair){(call + i) % size == me ? 2 * size : me, me, 0};
      out[slot][i] = (struct pair){-1, -1, kUntouched + i};
    }
    if (call < kCalls)
      MPI_Iallreduce(in[slot], out[slot], kPairs, MPI_DOUBLE_INT, MPI_MAXLOC, comms[1], &requests[slot]);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  comms[0] = MPI_COMM_WORLD;
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  program = pthread_self();
  MPI_Op_create(add, 1, &own_sum);
  const size_t ints = (size_t)(kMost + 1) * (size_t)size;
  for (int slot = 0; slot < kSlots; ++slot) {
    calls[slot].in = malloc(ints * sizeof(int));
    calls[slot].out = malloc(ints * sizeof(int));
    calls[slot].lists = malloc(2 * (size_t)size * sizeof(int));
  }
  pairs_with_gaps();
  unequal_shares();
  for (int depth = 0; depth < kDepths; ++depth)
    for (int of_many_shapes = 0; of_many_shapes < 2; ++of_many_shapes) round_of(depth, of_many_shapes);
  by_other_names();
  const int result = report();
  MPI_Op_free(&own_sum);
  MPI_Comm_free(&comms[1]);
  MPI_Finalize();
  for (int slot = 0; slot < kSlots; ++slot) {
    free(calls[slot].in);
    free(calls[slot].out);
    free(calls[slot].lists);
  }
  return result;
}
