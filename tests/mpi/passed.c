/* Calls that the original library has to make, as their operation does not commute, and some without
 * elements, which nobody makes. passed.sh looks at what the report says of them. */
#include <mpi.h>
#include <stdio.h>

/* Leaves the later operand, which is there already. */
static void later(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)in, (void)inout, (void)count, (void)type;
}

int main(int argc, char** argv) {
  enum { CALLS = 1000 };
  int rank, size, wrong = 0;
  MPI_Op op;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Op_create(later, 0, &op);
  for (int i = 0; i < CALLS; ++i) {
    int in[3] = {rank, i, 7}, out[3] = {-1, -1, -1};
    MPI_Reduce(in, out, 3, MPI_INT, op, i % size, MPI_COMM_WORLD);
    wrong += rank == i % size && (out[0] != size - 1 || out[1] != i || out[2] != 7);
    if (i % 4 == 0) {
      MPI_Allreduce(in, out, 2, MPI_INT, op, MPI_COMM_WORLD);
      wrong += out[0] != size - 1 || out[1] != i;
    }
    if (i % 100 == 0) MPI_Bcast(in, 0, MPI_INT, 0, MPI_COMM_WORLD);
  }
  MPI_Op_free(&op);
  if (wrong) printf("%d calls are wrong\n", wrong);
  MPI_Finalize();
  return wrong != 0;
}
