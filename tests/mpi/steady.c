/* Many small all-reduces in a row, after enough of them for everything to be settled; the results are
 * checked. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank, size, calls = argc > 1 ? atoi(argv[1]) : 1000, wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 2000 + calls; ++i) {
    int mine = rank + i, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += sum != size * i + size * (size - 1) / 2;
  }
  MPI_Finalize();
  return wrong != 0;
}
