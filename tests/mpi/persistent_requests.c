/* What persistent collectives are told apart by, and what of their arguments counts on which rank, results
 * verified. An ordinary MPI program: it knows nothing of who serves its calls. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "persistent_names.h"

static long cases, failures;
static int rank, size;

/* Types that MPI does not look at may be anything. */
static void with_types_of_no_matter(MPI_Comm comm) {
  enum { kNone = 0x1234 };
  const MPI_Datatype none = (MPI_Datatype)(uintptr_t)kNone;
  const int is_root = rank == size - 1;
  int mine = rank, *all = malloc((size_t)size * sizeof(int));
  MPI_Request requests[3];
  for (int i = 0; i < size; ++i) all[i] = i == rank ? rank : -1;
  MPI_Gather_init(&mine, 1, MPI_INT, all, 1, is_root ? MPI_INT : none, size - 1, comm, MPI_INFO_NULL,
                   &requests[0]);
  MPI_Scatter_init(all, 1, is_root ? MPI_INT : none, &mine, 1, MPI_INT, size - 1, comm, MPI_INFO_NULL,
                    &requests[1]);
  MPI_Allgather_init(MPI_IN_PLACE, 0, none, all, 1, MPI_INT, comm, MPI_INFO_NULL, &requests[2]);
  for (int i = 0; i < 3; ++i) {
    MPI_Start(&requests[i]);
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[i]);
  }
  ++cases;
  for (int i = 0; i < size; ++i)
    if ((mine != rank || all[i] != i) && failures++ < 10)
      fprintf(stderr, "check: types of no matter, rank %d: %d, of rank %d %d\n", rank, mine, i, all[i]);
  free(all);
}

/* One that lives while very many others come and go is told apart from all of them: the last of these ends
 * long before it does. */
static void among_many(MPI_Comm comm) {
  enum { kMany = 1 << 15 };
  int mine = 1, all = 0, other = 0;
  MPI_Request lasting, passing;
  MPI_Allreduce_init(&mine, &all, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &lasting);
  for (int i = 1; i < kMany; ++i) {
    MPI_Bcast_init(&other, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &passing);
    if (i > kMany - 4) {
      all = 0;
      if (rank == 0) MPI_Start(&lasting);
      MPI_Start(&passing);
      if (rank != 0) {
        MPI_Wait(&passing, MPI_STATUS_IGNORE);
        usleep(20000);
        MPI_Start(&lasting);
      }
      MPI_Wait(&lasting, MPI_STATUS_IGNORE);
      ++cases;
      if (all != size && failures++ < 10)
        fprintf(stderr, "check: among many, rank %d: %d, not %d\n", rank, all, size);
      MPI_Wait(&passing, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&passing);
  }
  MPI_Request_free(&lasting);
}

/* Which MPI forbids: it is refused, and the request goes on as if nothing had been. */
static void with_attempts_to_cancel(MPI_Comm comm) {
  int mine = rank, all = -1;
  MPI_Request request;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Allreduce_init(&mine, &all, 1, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL, &request);
  for (int round = 0; round < 3; ++round) {
    all = -1;
    if (rank == size - 1) usleep(20000);
    MPI_Start(&request);
    const int is_refused = rank > 0 || MPI_Cancel(&request) == MPI_ERR_REQUEST;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ++cases;
    if ((!is_refused || all != size - 1) && failures++ < 10)
      fprintf(stderr, "check: cancelled, rank %d: refused %d, %d\n", rank, is_refused, all);
  }
  MPI_Request_free(&request);
  all = -1;
  if (rank == size - 1) usleep(20000);
  MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MAX, comm, &request);
  const int is_refused = rank > 0 || size == 1 || MPI_Cancel(&request) == MPI_ERR_REQUEST;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  ++cases;
  if ((!is_refused || all != size - 1) && failures++ < 10)
    fprintf(stderr, "check: cancelled, not persistent, rank %d: refused %d, %d\n", rank, is_refused, all);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  with_types_of_no_matter(MPI_COMM_WORLD);
  with_attempts_to_cancel(MPI_COMM_WORLD);
  if (size == 2) among_many(MPI_COMM_WORLD);
  long mine[2] = {cases, failures}, all[2];
  MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("check: %ld cases %ld failures\n", all[0], all[1]);
  MPI_Finalize();
  return all[1] ? 1 : 0;
}
