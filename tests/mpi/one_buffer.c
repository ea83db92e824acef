/* A rank's input is given as its own place in the output, or the other way around, instead of MPI_IN_PLACE.
 * MPI forbids it, Open MPI lets it pass, and programs do it. Where that place is the beginning of the buffer,
 * one rank sees the same pointer twice and the others do not.
 *
 *   one_buffer [--unchecked]
 *
 * --unchecked: arguments are not checked (mpi_param_check is 0), and one rank's reductions do so, too. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kInts = 1000 };
static int me, size;
static long failures;

/* Blocks that hold the number of their rank, this rank's alone or all, and -1 in the others. */
static int* blocks(int all) {
  int* at = malloc((size_t)size * kInts * sizeof(int));
  for (int i = 0; i < size * kInts; ++i) at[i] = all || i / kInts == me ? i / kInts : -1;
  return at;
}

static void check(const char* what, int* at, int first, int count) {
  for (int i = first * kInts; i < (first + count) * kInts; ++i)
    if (at[i] != i / kInts) {
      fprintf(stderr, "check: %s, rank %d, element %d: %d, not %d\n", what, me, i, at[i], i / kInts);
      ++failures;
      break;
    }
  free(at);
}

/* A reduce-scatter whose result is to lie at the beginning of its input, in one int on the first rank. */
static void reduce_scatter(void) {
  int counts[64], first = 0;
  for (int r = 0; r < size; ++r) counts[r] = r == 0 ? 1 : kInts;
  for (int r = 0; r < me; ++r) first += counts[r];
  int* at = malloc((size_t)size * kInts * sizeof(int));
  for (int i = 0; i < size * kInts; ++i) at[i] = me + i;
  MPI_Reduce_scatter(at, at, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < counts[me]; ++i)
    if (at[i] != size * (first + i) + size * (size - 1) / 2) {
      fprintf(stderr, "check: reduce-scatter, rank %d, element %d: %d\n", me, i, at[i]);
      ++failures;
      break;
    }
  free(at);
}

static void movements(int count, MPI_Datatype type) {
  MPI_Request request;
  int* at = blocks(0);
  MPI_Allgather(at + me * kInts, count, type, at, count, type, MPI_COMM_WORLD);
  check("allgather", at, 0, size);
  at = blocks(0);
  MPI_Iallgather(at + me * kInts, count, type, at, count, type, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check("nonblocking allgather", at, 0, size);
  for (int root = 0; root < size; ++root) {
    at = blocks(0);
    MPI_Gather(at + me * kInts, count, type, at, count, type, root, MPI_COMM_WORLD);
    check("gather", at, me == root ? 0 : me, me == root ? size : 1);
    at = blocks(me == root);
    MPI_Scatter(at, count, type, at + me * kInts, count, type, root, MPI_COMM_WORLD);
    check("scatter", at, me, 1);
  }
}

static void reductions_on_one_rank(void) {
  int mine[kInts], all[kInts];
  int* out = me == 0 ? mine : all;
  for (int turn = 0; turn < 10; ++turn) {
    for (int i = 0; i < kInts; ++i) mine[i] = me + i, all[i] = -1;
    if (turn % 2)
      MPI_Reduce(mine, out, kInts, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    else
      MPI_Allreduce(mine, out, kInts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < kInts; ++i)
      if (out[i] != (turn % 2 && me > 0 ? -1 : size * i + size * (size - 1) / 2)) {
        fprintf(stderr, "check: a reduction, rank %d, element %d: %d\n", me, i, out[i]);
        ++failures;
        break;
      }
  }
}

int main(int argc, char** argv) {
  const int is_unchecked = argc > 1 && strcmp(argv[1], "--unchecked") == 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  movements(kInts, MPI_INT);
  MPI_Datatype block; /* a call with a type that the program made is remembered when it is made again */
  MPI_Type_contiguous(kInts, MPI_INT, &block);
  MPI_Type_commit(&block);
  for (int turn = 0; turn < 5; ++turn) movements(1, block);
  MPI_Type_free(&block);
  reduce_scatter();
  if (is_unchecked) reductions_on_one_rank();
  long all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (me == 0) printf("check: %ld failures\n", all);
  MPI_Finalize();
  return all ? 1 : 0;
}
