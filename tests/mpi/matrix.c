#include "matrix.h"

MPI_Datatype pairs, gaps;

int value(int from, int block, int i, int seed) {
  return (from * 1009 + block * 7919 + i * 31 + seed * 101) % 9973;
}

static struct comm_case named(const char* name, MPI_Comm comm) {
  struct comm_case c = {name, comm, 0, 0};
  MPI_Comm_size(comm, &c.size);
  MPI_Comm_rank(comm, &c.me);
  return c;
}

int run_matrix(int argc, char** argv, void (*each)(const struct comm_case* on)) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Type_contiguous(2, MPI_INT, &pairs);
  MPI_Type_commit(&pairs);
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gaps);
  MPI_Type_commit(&gaps);
  MPI_Comm reversed, halves;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &halves);
  struct comm_case on[] = {named("the world", MPI_COMM_WORLD), named("the world reversed", reversed),
                           named("every other rank", halves), named("itself", MPI_COMM_SELF)};
  for (size_t c = 0; c < sizeof on / sizeof *on; ++c) each(&on[c]);
  MPI_Comm_free(&reversed);
  MPI_Comm_free(&halves);
  MPI_Type_free(&pairs);
  MPI_Type_free(&gaps);
  int code = report();
  MPI_Finalize();
  return code;
}
