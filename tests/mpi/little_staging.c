/* Many nonblocking reduces on several communicators, begun there in an order of each rank's own: what a rank
 * has sent on one of them waits for ranks that are busy with another. An ordinary MPI program. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kComms = 8, kCalls = 30, kCount = 40000, kRoot = 1 };

static MPI_Comm comms[kComms];
static MPI_Request requests[kComms * kCalls];

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int me, size, failures = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int c = 0; c < kComms; ++c) MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]);
  int* in = malloc(kCount * sizeof(int));
  int* out = me == kRoot ? malloc(sizeof(int) * kCount * kComms * kCalls) : NULL;
  for (int i = 0; i < kCount; ++i) in[i] = i + me;
  for (int turn = 0; turn < kComms; ++turn) {
    const int c = me % 2 == 0 ? turn : kComms - 1 - turn;
    for (int call = c * kCalls; call < (c + 1) * kCalls; ++call)
      MPI_Ireduce(in, out ? out + (size_t)call * kCount : NULL, kCount, MPI_INT, MPI_SUM, kRoot, comms[c],
                  &requests[call]);
  }
  MPI_Waitall(kComms * kCalls, requests, MPI_STATUSES_IGNORE);
  for (size_t k = 0; out && k < (size_t)kCount * kComms * kCalls; ++k)
    failures += out[k] != size * (int)(k % kCount) + size * (size - 1) / 2;
  if (failures) fprintf(stderr, "%d elements are wrong\n", failures);
  for (int c = 0; c < kComms; ++c) MPI_Comm_free(&comms[c]);
  free(in);
  free(out);
  MPI_Finalize();
  return failures > 0;
}
