/* Small calls that are made again and again, so often that whoever serves them may have remembered how, and
 * then with another buffer, in place, from another root, with a type or on a communicator whose handle was
 * another's before, or wrongly. Every result is verified. An ordinary MPI program: it knows nothing of who
 * serves its calls.
 *
 *   kept_calls [--only-eligible]
 *
 * --only-eligible leaves out what is erroneous, which an engine hands to the original library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

enum { kMost = 3000, kRepeats = 100, kShapes = 150, kTurns = 4 };

enum kind { ALLREDUCE, BCAST, REDUCE, ALLGATHER, REDUCE_SCATTER_BLOCK, ALLTOALL, GATHER, SCATTER, KINDS };
static const char* const kNames[KINDS] = {
    "allreduce", "bcast", "reduce", "allgather", "reduce_scatter_block", "alltoall", "gather", "scatter"};

static int size, me;
static int *in_memory, *out_memory;

static void wrong(const char* what, const char* name, int n, int i, int got, int expected) {
  if (failures++ < 10)
    fprintf(stderr, "check: %s, %s of %d ints, rank %d of %d: element %d is %d, not %d\n", what, name, n, me,
            size, i, got, expected);
}

static int sum_of(int block, int i, int seed) {
  int sum = 0;
  for (int r = 0; r < size; ++r) sum += value(r, block, i, seed);
  return sum;
}

static int expected(enum kind kind, int root, int block, int i, int seed) {
  switch (kind) {
    case ALLREDUCE:
    case REDUCE:
      return sum_of(0, i, seed);
    case REDUCE_SCATTER_BLOCK:
      return sum_of(me, i, seed);
    case BCAST:
      return value(root, 0, i, seed);
    case ALLGATHER:
    case GATHER:
      return value(block, 0, i, seed);
    case ALLTOALL:
      return value(block, me, i, seed);
    default:
      return value(root, me, i, seed);
  }
}

/* One call with the buffers so many ints from where they could be. */
static void one(enum kind kind, MPI_Comm comm, int root, int n, int shift, int in_place, int seed) {
  const int in_blocks = kind == ALLTOALL || kind == SCATTER || kind == REDUCE_SCATTER_BLOCK ? size : 1;
  const int out_blocks = kind == ALLGATHER || kind == ALLTOALL || kind == GATHER ? size : 1;
  const int is_root = me == root, all = size * n;
  int *in = in_memory + shift, *out = out_memory + shift;
  const int has_out = kind == REDUCE || kind == GATHER ? is_root : 1;
  const int place = in_place && kind != ALLTOALL && kind != BCAST &&
                    (kind == ALLREDUCE || kind == ALLGATHER || kind == REDUCE_SCATTER_BLOCK || is_root);
  ++cases_done;
  for (int i = -1; i <= all; ++i) in[i] = out[i] = kUntouched;
  for (int b = 0; b < in_blocks; ++b)
    for (int i = 0; i < n; ++i) in[b * n + i] = value(me, b, i, seed);
  if (kind == BCAST && is_root) memcpy(out, in, (size_t)n * sizeof(int));
  if (place && kind != SCATTER) /* in place the own share is in the output, of a gather at its place */
    memcpy(out + (out_blocks > 1 ? me * n : 0), in, (size_t)(in_blocks * n) * sizeof(int));
  const void* send = place && kind != SCATTER ? MPI_IN_PLACE : in;
  void* receive = place && kind == SCATTER ? MPI_IN_PLACE : out;
  switch (kind) {
    case ALLREDUCE:
      MPI_Allreduce(send, receive, n, MPI_INT, MPI_SUM, comm);
      break;
    case BCAST:
      MPI_Bcast(receive, n, MPI_INT, root, comm);
      break;
    case REDUCE:
      MPI_Reduce(send, has_out ? receive : NULL, n, MPI_INT, MPI_SUM, root, comm);
      break;
    case ALLGATHER:
      MPI_Allgather(send, n, MPI_INT, receive, n, MPI_INT, comm);
      break;
    case REDUCE_SCATTER_BLOCK:
      MPI_Reduce_scatter_block(send, receive, n, MPI_INT, MPI_SUM, comm);
      break;
    case ALLTOALL:
      MPI_Alltoall(send, n, MPI_INT, receive, n, MPI_INT, comm);
      break;
    case GATHER:
      MPI_Gather(send, n, MPI_INT, has_out ? receive : NULL, n, MPI_INT, root, comm);
      break;
    default:
      MPI_Scatter(is_root ? send : NULL, n, MPI_INT, receive, n, MPI_INT, root, comm);
      break;
  }
  if (!has_out) return;
  if (place && kind == SCATTER) out = in + me * n; /* stays where it was */
  for (int b = 0; b < out_blocks; ++b)
    for (int i = 0; i < n; ++i) {
      const int want = expected(kind, root, b, i, seed), got = out[b * n + i];
      if (got != want) return wrong("result", kNames[kind], n, b * n + i, got, want);
    }
  const int written = place && kind == REDUCE_SCATTER_BLOCK ? all : out_blocks * n;
  if (!(place && kind == SCATTER) && out[written] != kUntouched)
    wrong("behind the end", kNames[kind], n, written, out[written], kUntouched);
  if (out[-1] != kUntouched && !(place && kind == SCATTER && me > 0))
    wrong("before the beginning", kNames[kind], n, -1, out[-1], kUntouched);
}

/* The same call with buffers that move, and turns of others between. */
static void again_and_again(MPI_Comm comm) {
  static const int counts[] = {1, 5, 40};
  for (enum kind kind = 0; kind < KINDS; ++kind)
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < kRepeats; ++i) {
        const int root = i / 7 % size;
        one(kind, comm, root, counts[c], 1 + i % 5, i % 3 == 2, 1000 * kind + i);
        if (i % 10 == 0) MPI_Barrier(comm);
      }
}

static double seconds(void) { return seconds_by(CLOCK_MONOTONIC); }

/* One to four barriers after another call, to each of which another rank comes late: nobody leaves one before
 * all have come. The ranks see one clock. */
static void barriers(MPI_Comm comm) {
  enum { kMostInARow = 4 };
  double* all = malloc(2 * kMostInARow * (size_t)size * sizeof(double));
  for (int turn = 0; turn < kRepeats; ++turn) {
    double times[2 * kMostInARow];
    const int in_a_row = 1 + turn % kMostInARow;
    one(ALLREDUCE, comm, 0, 1, 1, 0, turn);
    for (int i = 0; i < in_a_row; ++i) {
      if ((turn + i) % size == me) {
        const double begin = seconds();
        while (seconds() < begin + 100e-6) continue;
      }
      times[2 * i] = seconds();
      MPI_Barrier(comm);
      times[2 * i + 1] = seconds();
    }
    MPI_Allgather(times, 2 * in_a_row, MPI_DOUBLE, all, 2 * in_a_row, MPI_DOUBLE, comm);
    ++cases_done;
    for (int i = 0; i < in_a_row; ++i)
      for (int r = 0; r < size; ++r)
        if (times[2 * i + 1] < all[2 * (in_a_row * r + i)])
          wrong("leaves before it comes", "barrier", in_a_row, i, me, r);
  }
  free(all);
}

enum vector { GATHERV, SCATTERV, ALLGATHERV, ALLTOALLV, REDUCE_SCATTER, VECTORS };
static const char* const kVectorNames[VECTORS] = {"gatherv", "scatterv", "allgatherv", "alltoallv",
                                                  "reduce_scatter"};

/* Of a few, then of any, then of long ones. */
static int length(int from, int to, int turn) {
  const int few = (from * 5 + to * (3 + turn % 4)) % 9, other = (few + turn / 7) % 9;
  return turn < kRepeats ? 1 + few : turn < 3 * kRepeats ? other : 300 * other + turn % 5;
}

/* One call with a count for every rank, of which everybody's lists lie where those of the call before lay. */
static void with_lists(enum vector kind, MPI_Comm comm, int root, int turn, int in_place) {
  static int counts[4][64];
  int *in_counts = counts[0], *in_at = counts[1], *out_counts = counts[2], *out_at = counts[3];
  const int is_root = me == root, gap = turn / 3 % 2;
  int ins = 0, outs = 0;
  ++cases_done;
  for (int r = 0; r < size; ++r) {
    in_counts[r] = kind == ALLTOALLV ? length(me, r, turn) : length(0, r, turn);
    out_counts[r] = kind == ALLTOALLV ? length(r, me, turn) : length(0, r, turn);
    in_at[r] = ins, ins += in_counts[r] + gap;
    out_at[r] = outs, outs += out_counts[r] + gap;
  }
  const int own = length(0, me, turn);
  int *in = in_memory, *out = out_memory;
  for (int i = 0; i <= ins; ++i) in[i] = kUntouched;
  for (int i = 0; i <= outs; ++i) out[i] = kUntouched;
  const int in_blocks = kind == SCATTERV || kind == ALLTOALLV;
  if (kind == REDUCE_SCATTER)
    for (int r = 0, at = 0; r < size; ++r)
      for (int i = 0; i < in_counts[r]; ++i) in[at++] = value(me, r, i, turn);
  else if (in_blocks)
    for (int r = 0; r < size; ++r)
      for (int i = 0; i < in_counts[r]; ++i) in[in_at[r] + i] = value(me, r, i, turn);
  else
    for (int i = 0; i < own; ++i) in[i] = value(me, 0, i, turn);
  const int place = in_place && (kind == ALLGATHERV || (kind == GATHERV && is_root));
  if (place) memcpy(out + out_at[me], in, (size_t)own * sizeof(int));
  const void* send = place ? MPI_IN_PLACE : in;
  switch (kind) {
    case GATHERV:
      MPI_Gatherv(send, own, MPI_INT, out, is_root ? out_counts : NULL, is_root ? out_at : NULL, MPI_INT,
                  root, comm);
      break;
    case SCATTERV:
      MPI_Scatterv(in, is_root ? in_counts : NULL, is_root ? in_at : NULL, MPI_INT, out, own, MPI_INT, root,
                   comm);
      break;
    case ALLGATHERV:
      MPI_Allgatherv(send, own, MPI_INT, out, out_counts, out_at, MPI_INT, comm);
      break;
    case ALLTOALLV:
      MPI_Alltoallv(in, in_counts, in_at, MPI_INT, out, out_counts, out_at, MPI_INT, comm);
      break;
    default:
      MPI_Reduce_scatter(in, out, in_counts, MPI_INT, MPI_SUM, comm);
      break;
  }
  if (kind == GATHERV && !is_root) return;
  const int out_blocks = kind != SCATTERV && kind != REDUCE_SCATTER;
  for (int r = 0; r < (out_blocks ? size : 1); ++r)
    for (int i = 0; i < (out_blocks ? out_counts[r] : own); ++i) {
      const int got = out[(out_blocks ? out_at[r] : 0) + i];
      const int want = kind == REDUCE_SCATTER ? sum_of(me, i, turn)
                       : kind == SCATTERV     ? value(root, me, i, turn)
                       : kind == ALLTOALLV    ? value(r, me, i, turn)
                                              : value(r, 0, i, turn);
      if (got != want) return wrong("result", kVectorNames[kind], own, i, got, want);
    }
  const int end = out_blocks ? outs - gap : own;
  if (out[end] != kUntouched) wrong("behind the end", kVectorNames[kind], own, end, out[end], kUntouched);
}

/* More lists than are kept by themselves; later each twice in a row. */
static void with_lists_that_change(MPI_Comm comm) {
  for (enum vector kind = 0; kind < VECTORS; ++kind)
    for (int i = 0; i < 4 * kRepeats; ++i)
      for (int again = 0; again <= (i >= 3 * kRepeats); ++again)
        with_lists(kind, comm, i / 9 % size, i, i % 5 == 4);
}

/* More calls of different sizes than anybody wants to remember. */
static void of_many_shapes(MPI_Comm comm) {
  for (int turn = 0; turn < kTurns; ++turn)
    for (int n = 1; n <= kShapes; ++n) one(n % 2 ? BCAST : ALLREDUCE, comm, n % size, n, 1, 0, turn + n);
}

/* The same but for the count, which is another each time, or one of two or three. */
static void with_other_counts(MPI_Comm comm) {
  for (enum kind kind = 0; kind < KINDS; ++kind)
    for (int i = 0; i < 4 * kRepeats; ++i) {
      const int any = i * 89 + i / 7 * 31, turn = i / kRepeats;
      const int n = turn % 2 ? 60 + i % 3 : 1 + any % (turn == 0 ? kShapes : kMost - 10);
      one(kind, comm, i / 7 % size, n, 1 + i % 5, i % 3 == 2, 1000 * kind + i);
      if (i % 10 == 0) MPI_Barrier(comm);
    }
}

/* The ranks say the same in other words, each in the same ones again or in a few in turn: who remembers what
 * makes it no other way than who does not. */
static void in_other_words(MPI_Comm comm) {
  enum { kWays = 8, kBytes = 32 };
  const struct {
    int count;
    MPI_Datatype type;
  } ways[kWays] = {{32, MPI_BYTE}, {32, MPI_CHAR},  {16, MPI_SHORT},  {8, MPI_INT},
                   {8, MPI_FLOAT}, {4, MPI_DOUBLE}, {4, MPI_INT64_T}, {32, MPI_SIGNED_CHAR}};
  for (int turn = 0; turn < kTurns; ++turn) {
    MPI_Comm own;
    MPI_Comm_dup(comm, &own);
    for (int i = 0; i < 2 * kRepeats; ++i) {
      const int way = me % 2 ? i * 3 % (turn < 2 ? 2 : kWays) : me % kWays, root = turn % size;
      char bytes[kBytes];
      memset(bytes, me == root ? 1 + i % 100 : 0, kBytes);
      MPI_Bcast(bytes, ways[way].count, ways[way].type, root, own);
      ++cases_done;
      for (int b = 0; b < kBytes; ++b)
        if (bytes[b] != 1 + i % 100) wrong("other words", "bcast", kBytes, b, bytes[b], 1 + i % 100);
    }
    MPI_Comm_free(&own);
  }
}

/* Communicators of one handle after the other, in which the ranks are others. */
static void on_handles_that_return(MPI_Comm comm) {
  const int of_world = size, in_world = me;
  for (int turn = 0; turn < kTurns; ++turn) {
    MPI_Comm part;
    const int key = turn % 2 ? -in_world : in_world, color = turn < 2 ? 0 : in_world / 2;
    MPI_Comm_split(comm, color, key, &part);
    MPI_Comm_size(part, &size);
    MPI_Comm_rank(part, &me);
    for (int i = 0; i < kRepeats; ++i) one(i % 2 ? BCAST : ALLGATHER, part, 0, 3, 1, 0, turn + i);
    MPI_Comm_free(&part);
  }
  size = of_world;
  me = in_world;
}

/* Types likewise: dense, then with gaps that nobody may touch. */
static void with_types_that_return(MPI_Comm comm) {
  for (int turn = 0; turn < kTurns; ++turn) {
    const int stride = 1 + turn % 2;
    MPI_Datatype two;
    MPI_Type_vector(2, 1, stride, MPI_INT, &two);
    MPI_Type_commit(&two);
    for (int i = 0; i < kRepeats; ++i) {
      int at[4] = {kUntouched, kUntouched, kUntouched, kUntouched};
      if (me == 0) at[0] = turn + i, at[stride] = turn - i;
      MPI_Bcast(at, 1, two, 0, comm);
      ++cases_done;
      if (at[0] != turn + i || at[stride] != turn - i || at[stride + 1] != kUntouched ||
          (stride == 2 && at[1] != kUntouched))
        wrong("a type", "bcast", 2, 0, at[0], turn + i);
    }
    MPI_Type_free(&two);
  }
}

/* An all-to-all of a type that the program made, in place and not in turn, with buffers that take turns. */
static void exchanged_in_place(MPI_Comm comm, int is_waited_for_later) {
  enum { kElements = 3, kInts = 2 * kElements, kBuffers = 3 };
  MPI_Datatype two;
  MPI_Type_contiguous(2, MPI_INT, &two);
  MPI_Type_commit(&two);
  for (int i = 0; i < kRepeats; ++i) {
    int *out = out_memory + i % kBuffers * (kInts * size + 1), *in = i % 4 == 3 ? in_memory : out;
    for (int b = 0; b < size; ++b)
      for (int e = 0; e < kInts; ++e) in[b * kInts + e] = value(me, b, e, i);
    const void* send = in == out ? MPI_IN_PLACE : in;
    if (is_waited_for_later) {
      MPI_Request request;
      MPI_Ialltoall(send, kElements, two, out, kElements, two, comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Alltoall(send, kElements, two, out, kElements, two, comm);
    }
    ++cases_done;
    for (int b = 0; b < size; ++b)
      for (int e = 0; e < kInts; ++e)
        if (out[b * kInts + e] != value(b, me, e, i))
          wrong(in == out ? "in place" : "between those in place", "alltoall", kInts, b * kInts + e,
                out[b * kInts + e], value(b, me, e, i));
  }
  MPI_Type_free(&two);
}

/* A share of less than nothing, by everybody; then one of something that is nowhere. */
static void shares_that_are_none(MPI_Comm comm) {
  int counts[64], at[64];
  for (int i = 0; i < 4 * kRepeats; ++i) {
    for (int r = 0; r < size; ++r) counts[r] = r == i % size ? 0 : 65 + (r + 7 * i) % 60, at[r] = 130 * r;
    MPI_Allgatherv(counts[me] ? in_memory : NULL, counts[me], MPI_INT, out_memory, counts, at, MPI_INT, comm);
  }
  for (int r = 0; r < size; ++r) counts[r] = r == me ? 0 : 70;
  if (MPI_Allgatherv(in_memory, -1, MPI_INT, out_memory, counts, at, MPI_INT, comm) == MPI_SUCCESS ||
      MPI_Allgatherv(NULL, -1, MPI_INT, out_memory, counts, at, MPI_INT, comm) == MPI_SUCCESS)
    wrong("a negative share is taken", "allgatherv", -1, 0, 0, 1);
}

/* What is no call is refused, however often it was right before. */
static void wrongly(void) {
  MPI_Comm own;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* some libraries ask this one */
  for (int i = 0; i < kRepeats; ++i) one(ALLREDUCE, own, 0, 8, 1, 0, i);
  ++cases_done;
  if (MPI_Allreduce(in_memory, in_memory, 8, MPI_INT, MPI_SUM, own) == MPI_SUCCESS)
    wrong("one buffer for both is taken", "allreduce", 8, 0, 0, 1);
  if (MPI_Allreduce(in_memory, out_memory, -8, MPI_INT, MPI_SUM, own) == MPI_SUCCESS)
    wrong("a negative count is taken", "allreduce", -8, 0, 0, 1);
  for (int i = 0; i < kRepeats; ++i) {
    int once = 1 + me;
    MPI_Allreduce(&once, &once, 1, MPI_INT, MPI_SUM, own); /* of one element it is in place */
    one(ALLREDUCE, own, 0, 1 + i % 8, 1, 0, i);
  }
  if (MPI_Allreduce(in_memory, in_memory, 2, MPI_INT, MPI_SUM, own) == MPI_SUCCESS)
    wrong("one buffer for both is taken", "allreduce", 2, 0, 0, 1);
  if (size > 1) shares_that_are_none(own);
  for (int i = 0; i < kRepeats; ++i) one(BCAST, own, 0, 8, 1, 0, i);
  if (MPI_Bcast(in_memory, 8, MPI_INT, size, own) == MPI_SUCCESS)
    wrong("a root that is none", "bcast", 8, 0, 0, 1);
  one(BCAST, own, 0, 8, 1, 0, 1);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_free(&own);
}

int main(int argc, char** argv) {
  const int only_eligible = argc > 1 && strcmp(argv[1], "--only-eligible") == 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const size_t ints = (size_t)kMost * (size_t)(size + 1);
  in_memory = malloc(ints * sizeof(int));
  out_memory = malloc(ints * sizeof(int));
  again_and_again(MPI_COMM_WORLD);
  barriers(MPI_COMM_WORLD);
  with_lists_that_change(MPI_COMM_WORLD);
  of_many_shapes(MPI_COMM_WORLD);
  with_other_counts(MPI_COMM_WORLD);
  in_other_words(MPI_COMM_WORLD);
  on_handles_that_return(MPI_COMM_WORLD);
  with_types_that_return(MPI_COMM_WORLD);
  exchanged_in_place(MPI_COMM_WORLD, 0);
  exchanged_in_place(MPI_COMM_WORLD, 1);
  if (!only_eligible) wrongly();
  const int result = report();
  MPI_Finalize();
  free(in_memory);
  free(out_memory);
  return result;
}
