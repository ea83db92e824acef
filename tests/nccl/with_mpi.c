/* MPI and NCCL in one process: the id travels by MPI, both do their all-reduces. */
#include <mpi.h>

#include "tests/nccl/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  int rank, size;
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  int destroys = argc < 2 || strcmp(argv[1], "leaves") != 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0 && ncclGetUniqueId(&id) != ncclSuccess) return 3;
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (ncclCommInitRank(&comm, size, id, rank) != ncclSuccess) return 4;
  double in[100], by_mpi[100], by_nccl[100];
  for (int i = 0; i < 100; ++i) in[i] = rank * 10 + i;
  for (int round = 0; round < 5; ++round) {
    MPI_Allreduce(in, by_mpi, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (ncclAllReduce(in, by_nccl, 100, ncclFloat64, ncclSum, comm, NULL) != ncclSuccess) return 5;
  }
  if (destroys && ncclCommDestroy(comm) != ncclSuccess) return 6;
  MPI_Finalize();
  int right = memcmp(by_mpi, by_nccl, sizeof by_mpi) == 0 && by_mpi[1] == size * (size - 1) / 2 * 10 + size;
  if (!right) fprintf(stderr, "with_mpi: rank %d: the sums differ\n", rank);
  return right ? 0 : 1;
}
