/* What a reduction leaves alone and goes by: what lies between the values of a pair, the rounding of the
 * program's arithmetic, and a small stack. An ordinary MPI program: it knows nothing of who serves its calls.
 */
#include <fenv.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static long cases, failures;

static void expect(const char* what, double got, double want) {
  ++cases;
  if (got != want && failures++ < 10)
    fprintf(stderr, "check: rank %d, %s: %g, not %g\n", rank, what, got, want);
}

struct long_pair {
  double value;
  int place, own;
};
struct short_pair {
  short value, own;
  int place;
};

/* What is behind the place, or before it, is the program's. */
static void pairs(int count) {
  struct long_pair *in = calloc((size_t)count, sizeof *in), *out = calloc((size_t)count, sizeof *out);
  struct short_pair *few = calloc((size_t)count, sizeof *few), *back = calloc((size_t)count, sizeof *back);
  MPI_Request request;
  for (int i = 0; i < count; ++i) {
    in[i] = (struct long_pair){rank + i % 7, rank, 1000};
    out[i].own = few[i].own = 50 + rank + i % 3;
    few[i].value = (short)(rank + i % 7);
    few[i].place = rank;
  }
  MPI_Allreduce(in, out, count, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    expect("the largest", out[i].value * 100 + out[i].place, (size - 1 + i % 7) * 100 + size - 1);
    expect("what is behind it", out[i].own, 50 + rank + i % 3);
  }
  MPI_Iallreduce(MPI_IN_PLACE, few, count, MPI_SHORT_INT, MPI_MINLOC, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < count; ++i) {
    expect("the least", few[i].value * 100 + few[i].place, i % 7 * 100);
    expect("what is between", few[i].own, 50 + rank + i % 3);
    back[i].own = 7;
  }
  MPI_Reduce(few, back, count, MPI_SHORT_INT, MPI_MAXLOC, size - 1, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) expect("what is between on the root", back[i].own, 7);
  free(in), free(out), free(few), free(back);
}

/* Also when others than the program's thread do the work, while that is away. */
static void rounding(int count) {
  double *in = malloc((size_t)count * sizeof *in), *out = malloc((size_t)count * sizeof *out);
  MPI_Request request;
  MPI_Iallreduce(MPI_IN_PLACE, &cases, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD, &request);
  usleep(20000);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  fesetround(FE_UPWARD);
  volatile double one = 1, little = 1e-20;
  const double more = one + little;
  for (int i = 0; i < count; ++i) in[i] = rank == 0 ? 1 : rank == 1 ? 1e-20 : 0;
  for (int turn = 0; turn < 10; ++turn) {
    MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    usleep(5000);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; ++i) expect("a sum rounded up", out[i], more);
  }
  fesetround(FE_TONEAREST);
  free(in), free(out);
}

static void* reduce(void* none) {
  int mine = rank + 1, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect("a sum", all, size * (size + 1) / 2);
  return none;
}

static void on_small_stacks(void) {
  pthread_attr_t small;
  pthread_t thread;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 24 << 10);
  for (int i = 0; i < 3 && pthread_create(&thread, &small, reduce, NULL) == 0; ++i)
    pthread_join(thread, NULL);
  pthread_attr_destroy(&small);
}

/* With an argument several threads may call MPI. */
int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int count = 1; count < 20000; count = 11 * count + 2)
    for (int turn = 0; turn < 4; ++turn) pairs(count);
  if (size > 1) rounding(1), rounding(4096);
  if (provided == MPI_THREAD_MULTIPLE) on_small_stacks();
  MPI_Finalize();
  if (rank == 0) printf("%ld cases\n", cases);
  return failures != 0 || cases == 0;
}
