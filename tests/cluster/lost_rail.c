/* lost_rail WHEN COMMAND [SUMS]: sums on all ranks, and rank 0 runs a shell command that cuts a rail, either before the
 * first sum (WHEN = 0) or after so many. Ends with 0 when all sums are right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kElements = 1 << 18 };

static int is_sum_wrong(float* in, float* out, int ranks) {
  for (int i = 0; i < kElements; ++i) in[i] = (float)(i % 1000);
  MPI_Allreduce(in, out, kElements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < kElements; ++i)
    if (out[i] != (float)(ranks * (i % 1000))) return 1;
  return 0;
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 0, wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* in = malloc(kElements * sizeof(float));
  float* out = malloc(kElements * sizeof(float));
  int cut_at = argc > 2 ? atoi(argv[1]) : -1, sums = argc > 3 ? atoi(argv[3]) : 20;
  for (int sum = 0; sum < sums; ++sum) {
    if (sum == cut_at) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0 && system(argv[2]) != 0) MPI_Abort(MPI_COMM_WORLD, 99);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    wrong += is_sum_wrong(in, out, ranks);
  }
  if (rank == 0) printf("check: %d sums %d wrong\n", sums, wrong);
  free(in);
  free(out);
  MPI_Finalize();
  return wrong != 0;
}
