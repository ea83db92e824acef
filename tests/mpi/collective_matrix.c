/* All collectives but all-reduce over communicators x roots x counts x types x places, blocking and not,
 * every result verified, gaps between elements included. An ordinary MPI program: it knows nothing of who
 * serves its calls.
 *
 *   collective_matrix [--only-eligible | --forbid-reading]
 *
 * --only-eligible leaves out what an engine may hand to the original library. --forbid-reading has the kernel
 * refuse the last rank, once the job runs, what it could do in MPI_Init: to read other processes' memory. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "matrix.h"

static int only_eligible, forbids_reading;

enum kind {
  BCAST,
  REDUCE,
  ALLGATHER,
  REDUCE_SCATTER,
  REDUCE_SCATTER_BLOCK,
  ALLTOALL,
  GATHER,
  SCATTER,
  KINDS
};
static const char* const kNames[KINDS] = {
    "bcast",    "reduce", "allgather", "reduce_scatter", "reduce_scatter_block",
    "alltoall", "gather", "scatter"};

/* How a rank describes a block of n ints. */
enum shape {
  INTS,
  BYTES, /* 4 n of them */
  PAIRS, /* a dense derived type of two ints, n even */
  GAPS,  /* each int followed by one that nobody may touch */
  SHAPES
};

struct memory { /* blocks of n ints in that shape */
  enum shape shape;
  int blocks, n, stride; /* stride: ints from one to the next */
  MPI_Datatype type;
  int count;
  int* at;
};

static struct memory make_memory(enum shape shape, int blocks, int n) {
  struct memory m = {shape, blocks, n, shape == GAPS ? 2 : 1, MPI_INT, n, NULL};
  if (shape == BYTES) m.type = MPI_BYTE, m.count = 4 * n;
  if (shape == PAIRS) m.type = pairs, m.count = n / 2;
  if (shape == GAPS) m.type = gaps;
  size_t ints = (size_t)blocks * (size_t)n * (size_t)m.stride + 1;
  m.at = malloc(ints * sizeof(int));
  for (size_t i = 0; i < ints; ++i) m.at[i] = kUntouched;
  return m;
}

static int* element(const struct memory* m, int block, int i) {
  return m->at + ((size_t)block * (size_t)m->n + (size_t)i) * (size_t)m->stride;
}

static void fill(const struct memory* m, int block, int from, int as, int seed) {
  for (int i = 0; i < m->n; ++i) *element(m, block, i) = value(from, as, i, seed);
}

struct want {
  enum kind kind;
  const struct comm_case* on;
  int root, n, in_place, nonblocking, seed;
  enum shape in, out;
};

static void wrong(const struct want* w, const char* what, int block, int i, int got, int expected) {
  if (failures++ < 10)
    fprintf(stderr,
            "check: %s on %s of %d, rank %d, root %d, %d ints (shapes %d %d%s%s): %s, block %d element %d: "
            "%d, not %d\n",
            kNames[w->kind], w->on->name, w->on->size, w->on->me, w->root, w->n, w->in, w->out,
            w->in_place ? ", in place" : "", w->nonblocking ? ", nonblocking" : "", what, block, i, got,
            expected);
}

static int reduces(enum kind kind) {
  return kind == REDUCE || kind == REDUCE_SCATTER || kind == REDUCE_SCATTER_BLOCK;
}
static int is_rooted(enum kind kind) {
  return kind == BCAST || kind == REDUCE || kind == GATHER || kind == SCATTER;
}

static int sum_of(const struct want* w, int block, int i) {
  int sum = 0;
  for (int r = 0; r < w->on->size; ++r) sum += value(r, block, i, w->seed);
  return sum;
}

/* What belongs into element i of a block of the output. */
static int expected(const struct want* w, int block, int i) {
  const int me = w->on->me;
  switch (w->kind) {
    case BCAST:
      return value(w->root, 0, i, w->seed);
    case REDUCE:
      return sum_of(w, 0, i);
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_BLOCK:
      return sum_of(w, me, i);
    case ALLGATHER:
    case GATHER:
      return value(block, block, i, w->seed);
    case ALLTOALL:
      return value(block, me, i, w->seed);
    default:
      return value(w->root, me, i, w->seed);
  }
}

static void call(const struct want* w, const void* in, const struct memory* send, void* out,
                 const struct memory* receive) {
  MPI_Comm comm = w->on->comm;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Request* r = &request;
  int* counts = malloc((size_t)w->on->size * sizeof(int));
  for (int i = 0; i < w->on->size; ++i) counts[i] = w->n;
  const int root = w->root;
  switch (w->kind) {
    case BCAST:
      EITHER(w, MPI_Bcast(out, receive->count, receive->type, root, comm),
             MPI_Ibcast(out, receive->count, receive->type, root, comm, r));
      break;
    case REDUCE:
      EITHER(w, MPI_Reduce(in, out, w->n, MPI_INT, MPI_SUM, root, comm),
             MPI_Ireduce(in, out, w->n, MPI_INT, MPI_SUM, root, comm, r));
      break;
    case REDUCE_SCATTER:
      EITHER(w, MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm),
             MPI_Ireduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm, r));
      break;
    case REDUCE_SCATTER_BLOCK:
      EITHER(w, MPI_Reduce_scatter_block(in, out, w->n, MPI_INT, MPI_SUM, comm),
             MPI_Ireduce_scatter_block(in, out, w->n, MPI_INT, MPI_SUM, comm, r));
      break;
    case ALLGATHER:
      EITHER(w, MPI_Allgather(in, send->count, send->type, out, receive->count, receive->type, comm),
             MPI_Iallgather(in, send->count, send->type, out, receive->count, receive->type, comm, r));
      break;
    case ALLTOALL:
      EITHER(w, MPI_Alltoall(in, send->count, send->type, out, receive->count, receive->type, comm),
             MPI_Ialltoall(in, send->count, send->type, out, receive->count, receive->type, comm, r));
      break;
    case GATHER:
      EITHER(w, MPI_Gather(in, send->count, send->type, out, receive->count, receive->type, root, comm),
             MPI_Igather(in, send->count, send->type, out, receive->count, receive->type, root, comm, r));
      break;
    default:
      EITHER(w, MPI_Scatter(in, send->count, send->type, out, receive->count, receive->type, root, comm),
             MPI_Iscatter(in, send->count, send->type, out, receive->count, receive->type, root, comm, r));
      break;
  }
  if (w->nonblocking) MPI_Wait(r, MPI_STATUS_IGNORE);
  free(counts);
}

static void verify(const struct want* w, const struct memory* out, int first, int blocks) {
  for (int b = first; b < first + blocks; ++b)
    for (int i = 0; i < w->n; ++i) {
      int want = expected(w, b - first, i), got = *element(out, b, i);
      if (got != want) return wrong(w, "result", b, i, got, want);
      if (out->stride == 2 && element(out, b, i)[1] != kUntouched)
        return wrong(w, "gap", b, i, element(out, b, i)[1], kUntouched);
    }
  int* end = element(out, out->blocks, 0);
  if (*end != kUntouched) wrong(w, "behind the end", out->blocks, 0, *end, kUntouched);
}

/* Where the output counts on this rank. */
static int has_out(const struct want* w) {
  return (w->kind != REDUCE && w->kind != GATHER) || w->on->me == w->root;
}

static void one(struct want w) {
  const int me = w.on->me, size = w.on->size;
  const int in_blocks =
      w.kind == ALLTOALL || w.kind == SCATTER || w.kind == REDUCE_SCATTER || w.kind == REDUCE_SCATTER_BLOCK
          ? size
          : 1;
  const int out_blocks = w.kind == ALLTOALL || w.kind == ALLGATHER || w.kind == GATHER ? size : 1;
  const int at_root = !is_rooted(w.kind) || me == w.root;
  const int place = w.in_place && at_root && w.kind != BCAST; /* here */
  if (reduces(w.kind)) w.in = w.out = INTS;
  ++cases_done;
  ++w.seed;
  /* In place one memory serves for both. */
  struct memory in = make_memory(w.in, in_blocks, w.n);
  struct memory out = make_memory(w.out, place && in_blocks > out_blocks ? in_blocks : out_blocks, w.n);
  struct memory* source = place && w.kind != SCATTER ? &out : &in;
  for (int b = 0; b < in_blocks; ++b) {
    const int into = place && (w.kind == ALLGATHER || w.kind == GATHER) ? me : b;
    const int as = w.kind == ALLGATHER || w.kind == GATHER ? me : b;
    fill(source, into, me, as, w.seed);
  }
  if (w.kind == BCAST && me == w.root) fill(&out, 0, me, 0, w.seed);
  const void* send = place && w.kind != SCATTER ? MPI_IN_PLACE : in.at;
  void* receive = place && w.kind == SCATTER ? MPI_IN_PLACE : out.at;
  call(&w, send, &in, receive, &out);
  if (has_out(&w)) {
    if (place && w.kind == SCATTER) {
      for (int i = 0; i < w.n; ++i)
        if (*element(&in, me, i) != expected(&w, 0, i))
          wrong(&w, "own block", me, i, *element(&in, me, i), expected(&w, 0, i));
    } else {
      verify(&w, &out, 0, out_blocks);
    }
  }
  free(in.at);
  free(out.at);
}

static void all_kinds(const struct comm_case* on) {
  static const int counts[] = {0, 1, 2, 6, 64, 1000, 4098, 70000};
  static int seed;
  for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c)
    for (int kind = 0; kind < KINDS; ++kind)
      for (int variant = 0; variant < 6; ++variant) {
        const int n = counts[c], root = (variant * 2 + (int)c) % on->size;
        if (n > 5000 && variant > 2) continue;
        /* Ranks may describe the same bytes in different ways. */
        enum shape in = n % 2 ? INTS : (enum shape)((variant + on->me) % SHAPES);
        enum shape out = n % 2 ? GAPS : (enum shape)((variant / 2 + on->me * 3) % SHAPES);
        if (variant == 0) in = out = INTS;
        one((struct want){(enum kind)kind, on, root, n, variant % 3 == 1, variant % 2, ++seed, in, out});
      }
}

static void barriers(const struct comm_case* on) {
  for (int i = 0; i < 3; ++i) {
    MPI_Request request;
    MPI_Barrier(on->comm);
    MPI_Ibarrier(on->comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    cases_done += 2;
  }
}

/* Many at once, of different kinds, completed in another order. */
static void outstanding(const struct comm_case* on) {
  enum { kCalls = 48, kInts = 300 };
  MPI_Request requests[kCalls];
  int* in = malloc(kCalls * kInts * sizeof(int));
  int* out = malloc((size_t)kCalls * kInts * (size_t)on->size * sizeof(int));
  for (int c = 0; c < kCalls; ++c) {
    int *mine = in + c * kInts, *into = out + (size_t)c * kInts * (size_t)on->size;
    const int root = c % on->size;
    for (int i = 0; i < kInts; ++i) mine[i] = value(on->me, c, i, 5);
    if (c % 3 == 0 && on->me == root) memcpy(into, mine, kInts * sizeof(int));
    if (c % 3 == 0) MPI_Ibcast(into, kInts, MPI_INT, root, on->comm, &requests[c]);
    if (c % 3 == 1) MPI_Iallgather(mine, kInts, MPI_INT, into, kInts, MPI_INT, on->comm, &requests[c]);
    if (c % 3 == 2) MPI_Ireduce(mine, into, kInts, MPI_INT, MPI_MAX, root, on->comm, &requests[c]);
  }
  for (int c = kCalls - 1; c >= kCalls / 2; --c) MPI_Wait(&requests[c], MPI_STATUS_IGNORE);
  MPI_Waitall(kCalls / 2, requests, MPI_STATUSES_IGNORE);
  for (int c = 0; c < kCalls; ++c, ++cases_done) {
    const int* into = out + (size_t)c * kInts * (size_t)on->size;
    const int root = c % on->size;
    struct want w = {
        c % 3 == 0 ? BCAST : c % 3 == 1 ? ALLGATHER : REDUCE, on, root, kInts, 0, 1, c, INTS, INTS};
    for (int i = 0; i < kInts; ++i) {
      int best = 0;
      for (int r = 0; r < on->size; ++r) best = value(r, c, i, 5) > best ? value(r, c, i, 5) : best;
      if (c % 3 == 0 && into[i] != value(root, c, i, 5))
        wrong(&w, "outstanding", 0, i, into[i], value(root, c, i, 5));
      if (c % 3 == 2 && on->me == root && into[i] != best) wrong(&w, "outstanding", 0, i, into[i], best);
      for (int r = 0; c % 3 == 1 && r < on->size; ++r)
        if (into[r * kInts + i] != value(r, c, i, 5))
          wrong(&w, "outstanding", r, i, into[r * kInts + i], value(r, c, i, 5));
    }
  }
  free(in);
  free(out);
}

/* A type may be freed while a call with it is under way. */
static void freed_type(const struct comm_case* on) {
  MPI_Datatype type;
  MPI_Type_dup(gaps, &type);
  struct memory m = make_memory(GAPS, 1, 500);
  struct want w = {BCAST, on, 0, 500, 0, 1, 77, GAPS, GAPS};
  if (on->me == 0) fill(&m, 0, 0, 0, w.seed);
  MPI_Request request;
  MPI_Ibcast(m.at, 500, type, 0, on->comm, &request);
  MPI_Type_free(&type);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  verify(&w, &m, 0, 1);
  free(m.at);
  ++cases_done;
}

/* What the original has to do: an operation that is said not to commute. */
static void larger(void* in, void* inout, int* n, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *n; ++i)
    if (((int*)in)[i] > ((int*)inout)[i]) ((int*)inout)[i] = ((int*)in)[i];
}

static void left_to_original(const struct comm_case* on) {
  MPI_Op op;
  MPI_Op_create(larger, 0, &op);
  int mine[4], most[4] = {0};
  for (int i = 0; i < 4; ++i) mine[i] = value(on->me, 0, i, 9);
  MPI_Reduce(mine, most, 4, MPI_INT, op, on->size - 1, on->comm);
  struct want w = {REDUCE, on, on->size - 1, 4, 0, 0, 9, INTS, INTS};
  for (int i = 0; on->me == on->size - 1 && i < 4; ++i) {
    int best = 0;
    for (int r = 0; r < on->size; ++r) best = value(r, 0, i, 9) > best ? value(r, 0, i, 9) : best;
    if (most[i] != best) wrong(&w, "own operation", 0, i, most[i], best);
  }
  MPI_Op_free(&op);
  ++cases_done;
}

static void forbid_reading(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) {
    perror("seccomp");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
}

static void all(const struct comm_case* on) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (forbids_reading && rank == size - 1) forbid_reading();
  forbids_reading = 0;
  all_kinds(on);
  barriers(on);
  outstanding(on);
  freed_type(on);
  if (!only_eligible) left_to_original(on);
}

int main(int argc, char** argv) {
  forbids_reading = argc > 1 && strcmp(argv[1], "--forbid-reading") == 0;
  only_eligible = forbids_reading || (argc > 1 && strcmp(argv[1], "--only-eligible") == 0);
  return run_matrix(argc, argv, all);
}
