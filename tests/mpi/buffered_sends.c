/* Buffered sends with room for one message, which has been received when the next one is sent: all ranks meet
 * in between. */
#include <mpi.h>
#include <stdlib.h>

enum { kBytes = 100000, kRounds = 300 };
enum Kind { kBlocking, kNonblocking, kPersistent, kPersistentAll, kKinds };

static void send(enum Kind kind, const char* message, MPI_Request* kept) {
  MPI_Request request = MPI_REQUEST_NULL;
  switch (kind) {
    case kBlocking:
      MPI_Bsend(message, kBytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
      break;
    case kNonblocking:
      MPI_Ibsend(message, kBytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
      break;
    case kPersistent:
      MPI_Start(kept);
      break;
    default:
      MPI_Startall(1, kept);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Wait(kept, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char* message = calloc(1, kBytes);
  int room = kBytes + MPI_BSEND_OVERHEAD;
  void* space = malloc((size_t)room);
  MPI_Buffer_attach(space, room);
  MPI_Request kept;
  MPI_Bsend_init(message, kBytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &kept);
  for (int i = 0; i < kKinds * kRounds; ++i) {
    if (rank == 0) send(i / kRounds, message, &kept);
    if (rank == 1) MPI_Recv(message, kBytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Request_free(&kept);
  MPI_Buffer_detach(&space, &room);
  free(space);
  free(message);
  MPI_Finalize();
  return 0;
}
