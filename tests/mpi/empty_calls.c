/* Calls without elements, again and again, each among others that say nearly the same: whoever does say the
 * same is done at once, and nobody else is. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, ranks, wrong;

static void expect(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "rank %d: %s\n", rank, what);
  ++wrong;
}

static void add(void* in, void* inout, int* n, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *n; ++i) ((int*)inout)[i] += ((int*)in)[i];
}

static void reductions(int i) {
  int in = rank + i, out = -1, sum = ranks * i + ranks * (ranks - 1) / 2;
  MPI_Request request;
  expect(MPI_Allreduce(&in, &out, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "allreduce of none");
  expect(out == -1, "an allreduce of none wrote something");
  MPI_Iallreduce(&in, &out, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  expect(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && out == -1, "iallreduce of none");
  MPI_Reduce(&in, &out, 0, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  expect(MPI_Reduce(&in, &out, 0, MPI_INT, MPI_SUM, ranks, MPI_COMM_WORLD) == MPI_ERR_ROOT, "no such root");
  expect(MPI_Allreduce(&in, &out, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_ERR_COUNT, "no such count");
  MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(out == sum, "allreduce of one after one of none");
}

static void movements(int i) {
  int in[8], out[8], value = rank == 0 ? i : -1;
  MPI_Bcast(&value, 0, MPI_INT, 0, MPI_COMM_WORLD);
  expect(value == (rank == 0 ? i : -1), "a broadcast of none wrote something");
  expect(MPI_Bcast(&value, 0, MPI_INT, ranks, MPI_COMM_WORLD) == MPI_ERR_ROOT, "broadcast: no such root");
  MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  expect(value == i, "broadcast of one after one of none");
  for (int r = 0; r < 8; ++r) in[r] = 10 * rank + i;
  memset(out, 0xff, sizeof out);
  MPI_Allgather(in, 0, MPI_INT, out, 0, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoall(in, 0, MPI_INT, out, 0, MPI_INT, MPI_COMM_WORLD);
  expect(out[0] == -1, "an allgather of none wrote something");
  MPI_Allgather(in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) expect(out[r] == 10 * r + i, "allgather of one after one of none");
}

/* The handle of a freed operation or type may be another's soon. */
static void handles(void) {
  int in = rank, out = -1;
  MPI_Op op;
  MPI_Datatype two;
  MPI_Op_create(add, 1, &op);
  MPI_Type_contiguous(2, MPI_INT, &two);
  MPI_Type_commit(&two);
  for (int i = 0; i < 3; ++i) MPI_Allreduce(&in, &out, 0, MPI_INT, op, MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) MPI_Bcast(&in, 0, two, 0, MPI_COMM_WORLD);
  MPI_Op_free(&op);
  MPI_Type_free(&two);
  MPI_Type_contiguous(2, MPI_INT, &two); /* not committed */
  expect(MPI_Bcast(&in, 0, two, 0, MPI_COMM_WORLD) != MPI_SUCCESS, "a type that is not committed");
  MPI_Type_free(&two);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < 10; ++i) {
    reductions(i);
    movements(i);
    handles();
  }
  MPI_Finalize();
  return wrong > 0;
}
