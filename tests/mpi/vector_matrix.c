/* The collectives with a count for every rank over communicators x roots x lengths x shapes x places,
 * blocking and not. Blocks lie in another order than the ranks, with gaps; all memory is compared, gaps
 * included. An ordinary MPI program: it knows nothing of who serves its calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

enum kind { ALLGATHERV, REDUCE_SCATTER, GATHERV, SCATTERV, ALLTOALLV, ALLTOALLW, KINDS };
static const char* const kNames[KINDS] = {"allgatherv", "reduce_scatter", "gatherv",
                                          "scatterv",   "alltoallv",      "alltoallw"};
enum { kHole = 2 };

/* How a rank describes ints: as they are, as bytes, or each followed by one that nobody may touch. */
enum shape { INTS, BYTES, GAPS, SHAPES };

struct want {
  enum kind kind;
  const struct comm_case* on;
  int root, pattern, scale, in_place, nonblocking, seed;
  enum shape in, out;
};

struct blocks { /* one buffer, with `expected` contents */
  int n, stride, per_int, ints;
  MPI_Datatype type;
  int *length, *counts, *displacements; /* the latter in the type's elements */
  int *at, *expected;
};

/* What rank `from` has for rank `to`; the same for all, where the kind has one length for each rank. */
static int length(const struct want* w, int from, int to) {
  const int rank = w->kind == ALLGATHERV || w->kind == GATHERV ? from : to;
  const int one = w->kind == ALLTOALLV || w->kind == ALLTOALLW ? from + to : rank;
  switch (w->pattern) {
    case 0:
      return (one * 3 + 2) % 5 * w->scale;
    case 1:
      return one == w->on->size - 1 ? w->scale : 0;
    case 2:
      return one % 2 ? 0 : w->scale + one;
    default:
      return w->scale;
  }
}

static struct blocks make_blocks(enum shape shape, int n) {
  struct blocks b = {n,   shape == GAPS ? 2 : 1, shape == BYTES ? 4 : 1, 0, MPI_INT, NULL, NULL, NULL, NULL,
                     NULL};
  if (shape == BYTES) b.type = MPI_BYTE;
  if (shape == GAPS) b.type = gaps;
  b.length = calloc((size_t)n + 1, sizeof(int));
  b.counts = calloc((size_t)n + 1, sizeof(int));
  b.displacements = calloc((size_t)n + 1, sizeof(int));
  return b;
}

/* From the last block to the first, or one after the other without holes. */
static void place(struct blocks* b, int is_dense) {
  int at = is_dense ? 0 : kHole;
  for (int k = 0; k < b->n; ++k) {
    const int r = is_dense ? k : b->n - 1 - k;
    b->counts[r] = b->length[r] * b->per_int;
    b->displacements[r] = at * b->per_int;
    at += b->length[r] + (is_dense ? 0 : kHole);
  }
  b->ints = at * b->stride + 1;
  b->at = malloc((size_t)b->ints * sizeof(int));
  b->expected = malloc((size_t)b->ints * sizeof(int));
  for (int i = 0; i < b->ints; ++i) b->at[i] = b->expected[i] = kUntouched;
}

static int* element(const struct blocks* b, int* base, int block, int i) {
  return base + (b->displacements[block] / b->per_int + i) * b->stride;
}

static void drop(struct blocks* b) {
  free(b->length);
  free(b->counts);
  free(b->displacements);
  free(b->at);
  free(b->expected);
}

static int sum_of(const struct want* w, int to, int i) {
  int sum = 0;
  for (int r = 0; r < w->on->size; ++r) sum += value(r, to, i, w->seed);
  return sum;
}

/* All of `block` as rank `from` gives it to rank `to`. */
static void fill(const struct want* w, struct blocks* b, int* base, int block, int from, int to) {
  for (int i = 0; i < b->length[block]; ++i) *element(b, base, block, i) = value(from, to, i, w->seed);
}

static void compare(const struct want* w, const struct blocks* b, const char* what) {
  for (int i = 0; i < b->ints; ++i) {
    if (b->at[i] == b->expected[i]) continue;
    if (failures++ < 10)
      fprintf(stderr,
              "check: %s on %s of %d, rank %d, root %d, lengths %d x %d (shapes %d %d%s%s): %s, int %d: %d, "
              "not %d\n",
              kNames[w->kind], w->on->name, w->on->size, w->on->me, w->root, w->pattern, w->scale, w->in,
              w->out, w->in_place ? ", in place" : "", w->nonblocking ? ", nonblocking" : "", what, i,
              b->at[i], b->expected[i]);
    return;
  }
}

static int gives_one(enum kind kind) { return kind == ALLGATHERV || kind == GATHERV; }
static int gets_one(enum kind kind) { return kind == REDUCE_SCATTER || kind == SCATTERV; }

/* The types of all ranks, and places in bytes. */
struct types {
  MPI_Datatype* type;
  int* places;
};
static struct types types_of(const struct blocks* b) {
  struct types t = {malloc(((size_t)b->n + 1) * sizeof(MPI_Datatype)),
                    malloc(((size_t)b->n + 1) * sizeof(int))};
  for (int r = 0; r < b->n; ++r) t.type[r] = b->type;
  for (int r = 0; r < b->n; ++r)
    t.places[r] = b->displacements[r] / b->per_int * b->stride * (int)sizeof(int);
  return t;
}

static void call(const struct want* w, const void* in, const struct blocks* send, void* out,
                 const struct blocks* receive) {
  MPI_Comm comm = w->on->comm;
  MPI_Request request = MPI_REQUEST_NULL, *r = &request;
  const int root = w->root;
  struct types from = types_of(send), to = types_of(receive);
  switch (w->kind) {
    case ALLGATHERV:
      EITHER(w,
             MPI_Allgatherv(in, send->counts[0], send->type, out, receive->counts, receive->displacements,
                            receive->type, comm),
             MPI_Iallgatherv(in, send->counts[0], send->type, out, receive->counts, receive->displacements,
                             receive->type, comm, r));
      break;
    case REDUCE_SCATTER:
      EITHER(w, MPI_Reduce_scatter(in, out, send->counts, MPI_INT, MPI_SUM, comm),
             MPI_Ireduce_scatter(in, out, send->counts, MPI_INT, MPI_SUM, comm, r));
      break;
    case GATHERV:
      EITHER(w,
             MPI_Gatherv(in, send->counts[0], send->type, out, receive->counts, receive->displacements,
                         receive->type, root, comm),
             MPI_Igatherv(in, send->counts[0], send->type, out, receive->counts, receive->displacements,
                          receive->type, root, comm, r));
      break;
    case SCATTERV:
      EITHER(w,
             MPI_Scatterv(in, send->counts, send->displacements, send->type, out, receive->counts[0],
                          receive->type, root, comm),
             MPI_Iscatterv(in, send->counts, send->displacements, send->type, out, receive->counts[0],
                           receive->type, root, comm, r));
      break;
    case ALLTOALLV:
      EITHER(w,
             MPI_Alltoallv(in, send->counts, send->displacements, send->type, out, receive->counts,
                           receive->displacements, receive->type, comm),
             MPI_Ialltoallv(in, send->counts, send->displacements, send->type, out, receive->counts,
                            receive->displacements, receive->type, comm, r));
      break;
    default:
      EITHER(w,
             MPI_Alltoallw(in, send->counts, from.places, from.type, out, receive->counts, to.places, to.type,
                           comm),
             MPI_Ialltoallw(in, send->counts, from.places, from.type, out, receive->counts, to.places,
                            to.type, comm, r));
      break;
  }
  if (w->nonblocking) MPI_Wait(r, MPI_STATUS_IGNORE);
  free(from.type);
  free(from.places);
  free(to.type);
  free(to.places);
}

/* What the rank ends with in its output, `b` being all that it has there. */
static void expect(const struct want* w, struct blocks* b) {
  const int me = w->on->me;
  for (int block = 0; block < b->n; ++block)
    for (int i = 0; i < b->length[block]; ++i) {
      int* at = element(b, b->expected, block, i);
      if (w->kind == REDUCE_SCATTER)
        *at = sum_of(w, me, i);
      else if (w->kind == SCATTERV)
        *at = value(w->root, me, i, w->seed);
      else
        *at = value(block, gives_one(w->kind) ? 0 : me, i, w->seed);
    }
}

static void one(struct want w) {
  const int me = w.on->me, size = w.on->size, reduces = w.kind == REDUCE_SCATTER;
  const int is_rooted = w.kind == GATHERV || w.kind == SCATTERV, at_root = !is_rooted || me == w.root;
  const int in_place = w.in_place && at_root;
  ++cases_done;
  if (reduces) w.in = w.out = INTS;
  struct blocks in = make_blocks(w.in, gives_one(w.kind) ? 1 : at_root ? size : 0);
  struct blocks out = make_blocks(w.out, gets_one(w.kind) ? 1 : at_root ? size : 0);
  for (int r = 0; r < in.n; ++r) in.length[r] = gives_one(w.kind) ? length(&w, me, me) : length(&w, me, r);
  for (int r = 0; r < out.n; ++r)
    out.length[r] = gets_one(w.kind) ? length(&w, w.root, me) : length(&w, r, me);
  place(&in, reduces);
  place(&out, 0);
  for (int b = 0; b < in.n; ++b) fill(&w, &in, in.at, b, me, gives_one(w.kind) ? 0 : b);
  memcpy(in.expected, in.at, (size_t)in.ints * sizeof(int));
  void *send = in.n ? element(&in, in.at, 0, 0) : NULL, *receive = out.n ? out.at : NULL;
  if (!gives_one(w.kind)) send = in.n ? in.at : NULL;
  if (gets_one(w.kind)) receive = element(&out, out.at, 0, 0);
  if (in_place && w.kind == SCATTERV) {
    receive = MPI_IN_PLACE;         /* its own block stays where it is */
  } else if (in_place && reduces) { /* the beginning of the input becomes the output */
    for (int i = 0; i < out.length[0]; ++i) in.expected[i] = sum_of(&w, me, i);
    receive = in.at;
    send = MPI_IN_PLACE;
  } else {
    expect(&w, &out);
    if (in_place) {
      for (int b = 0; b < out.n; ++b)
        if (!gives_one(w.kind) || b == me) fill(&w, &out, out.at, b, me, gives_one(w.kind) ? 0 : b);
      send = MPI_IN_PLACE;
    }
  }
  call(&w, send, &in, receive, &out);
  if (reduces && in_place) /* what lies behind the result is nobody's */
    for (int i = out.length[0]; i < in.ints; ++i) in.expected[i] = in.at[i];
  compare(&w, &in, "input");
  compare(&w, &out, "result");
  drop(&in);
  drop(&out);
}

static void all_kinds(const struct comm_case* on) {
  static const int scales[] = {0, 1, 3, 40, 1000, 30000};
  static int seed;
  for (size_t c = 0; c < sizeof scales / sizeof *scales; ++c)
    for (int kind = 0; kind < KINDS; ++kind)
      for (int variant = 0; variant < 8; ++variant) {
        if (scales[c] > 5000 && variant > 3) continue;
        /* Open MPI 4.1 takes the places in bytes times the extent where there is one rank. */
        if (kind == ALLTOALLW && on->size == 1) continue;
        /* Ranks may describe the same bytes in different ways. */
        enum shape in = (enum shape)((variant + on->me) % SHAPES),
                   out = (enum shape)((variant / 2 + on->me) % SHAPES);
        if (variant < 2) in = out = INTS;
        one((struct want){(enum kind)kind, on, (variant + (int)c) % on->size, variant % 4, scales[c],
                          variant % 3 == 1, variant / 2 % 2, ++seed, in, out});
      }
}

int main(int argc, char** argv) { return run_matrix(argc, argv, all_kinds); }
