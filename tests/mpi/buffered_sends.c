/* Buffered sends with room for one message, which has been received when the next one is sent: all ranks meet
 * in between. */
#include <mpi.h>
#include <stdlib.h>

enum { kBytes = 100000, kRounds = 300 };

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char* message = calloc(1, kBytes);
  int room = kBytes + MPI_BSEND_OVERHEAD;
  void* space = malloc((size_t)room);
  MPI_Buffer_attach(space, room);
  for (int i = 0; i < kRounds; ++i) {
    if (rank == 0 && i % 2) {
      MPI_Bsend(message, kBytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 0) {
      MPI_Request request;
      MPI_Ibsend(message, kBytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      MPI_Recv(message, kBytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Buffer_detach(&space, &room);
  free(space);
  free(message);
  MPI_Finalize();
  return 0;
}
