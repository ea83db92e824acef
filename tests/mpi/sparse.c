/* Gradients of which the largest chunks travel: every step's results on every rank, against sums made here of
 * what all ranks have kept; small all-reduces exact. An ordinary MPI program:
 * sparse SHARE FIRST_STEP, the first step that is sparse, 0 for none. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kChunk = 1024,
  kChunks = 40,
  kCount = kChunk * kChunks - 300,
  kSteps = 30,
  kGradients = 2,
  kMostRanks = 8
};

static int rank, ranks, failures;
static float kept[kGradients][kMostRanks][kCount]; /* as if this rank were all of them */

/* Whole numbers, so that sums are exact; in each step other chunks are large. */
static float gradient(int from, int step, int which, int i) {
  const int is_large = (i / kChunk + 3 * step + which) % 7 == 0;
  return (float)((is_large ? 9 : 1) * (1 + from) + i % 5 - 2);
}

static void choose(const double* norms, int sent, int* is_sent) {
  memset(is_sent, 0, sizeof(int) * kChunks);
  for (int n = 0; n < sent; ++n) {
    int most = -1;
    for (int chunk = 0; chunk < kChunks; ++chunk)
      if (!is_sent[chunk] && (most < 0 || norms[chunk] > norms[most])) most = chunk;
    is_sent[most] = 1;
  }
}

static void expect(const double* got, int step, int which, double share) {
  double norms[kChunks] = {0};
  int is_sent[kChunks];
  for (int from = 0; from < ranks; ++from)
    for (int i = 0; i < kCount; ++i) {
      kept[which][from][i] += gradient(from, step, which, i);
      norms[i / kChunk] += fabs(kept[which][from][i]);
    }
  choose(norms, (int)ceil(share * kChunks), is_sent);
  for (int i = 0; i < kCount; ++i) {
    double sum = 0;
    for (int from = 0; from < ranks && is_sent[i / kChunk]; ++from) {
      sum += kept[which][from][i];
      kept[which][from][i] = 0;
    }
    if (got[i] == sum) continue;
    if (++failures < 5)
      fprintf(stderr, "rank %d, step %d, gradient %d, element %d: %g and not %g\n", rank, step, which, i,
              got[i], sum);
  }
}

static void run_step(int step, int is_blocking, double share) {
  static float in[kCount], out[kCount];
  static double wide[kCount], got[kCount]; /* in place */
  MPI_Request requests[kGradients];
  double loss = rank, sum = 0;
  for (int i = 0; i < kCount; ++i) in[i] = gradient(rank, step, 0, i);
  for (int i = 0; i < kCount; ++i) wide[i] = gradient(rank, step, 1, i);
  if (is_blocking) {
    MPI_Allreduce(in, out, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, wide, kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&loss, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  } else {
    MPI_Iallreduce(in, out, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Allreduce(&loss, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Iallreduce(MPI_IN_PLACE, wide, kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    if (rank % 2) MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Waitall(kGradients, requests, MPI_STATUSES_IGNORE);
  }
  if (sum != ranks * (ranks - 1) / 2) ++failures, fprintf(stderr, "the loss changed\n");
  for (int i = 0; i < kCount; ++i) got[i] = out[i];
  expect(got, step, 0, share);
  expect(wide, step, 1, share);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const double share = argc > 1 ? atof(argv[1]) : 1;
  const int first = argc > 2 ? atoi(argv[2]) : 0;
  for (int step = 0; step < kSteps; ++step) run_step(step, step % 3 == 0, first && step >= first ? share : 1);
  if (rank == 0 && failures == 0) printf("all sums are right\n");
  MPI_Finalize();
  return failures != 0;
}
