/* One rank alone finds that what it gets is not as long as it expects. Those that wait for it in their next call hear
   of that, though its process goes on. Three ranks. Ends by itself with 0 if each has got its error. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int sent[300] = {0}, got[300], counts[3] = {20, 20, 20}, expected[3] = {20, 20, 20}, places[3] = {0, 100, 200};
  MPI_Alltoallv(sent, counts, places, MPI_INT, got, expected, places, MPI_INT, MPI_COMM_WORLD);
  if (rank == 0) expected[1] = 30;
  const int first = MPI_Alltoallv(sent, counts, places, MPI_INT, got, expected, places, MPI_INT, MPI_COMM_WORLD);
  const double begun = MPI_Wtime();
  const int second = MPI_Barrier(MPI_COMM_WORLD);
  const double waited = MPI_Wtime() - begun;
  const int is_right = (rank == 0) == (first != MPI_SUCCESS) && second != MPI_SUCCESS;
  printf("rank %d: %d, then %d after %.1f s: %s\n", rank, first, second, waited, is_right ? "right" : "wrong");
  fflush(stdout);
  if (rank == 0) sleep(4); /* the others wait for a rank that is there */
  MPI_Finalize();
  return is_right ? 0 : 1;
}
