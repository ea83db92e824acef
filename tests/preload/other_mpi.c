/* An MPI with handles of its own that stands on Open MPI, as MPItrampoline does: built as that library and as
 * a program that is linked with it. A preloaded library sees calls of the program that it must not
 * understand. */
typedef struct other_comm* Comm;
enum { SUM = 3, DOUBLE = 5 };
#define WORLD ((Comm)7)
int MPI_Init(int* argc, char*** argv);
int MPI_Comm_rank(Comm comm, int* rank);
int MPI_Comm_size(Comm comm, int* size);
int MPI_Allreduce(const void* in, void* out, int count, int type, int op, Comm comm);
int MPI_Finalize(void);

#ifdef DDL_TEST_LIBRARY
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void* below;

__attribute__((constructor)) static void open_below(void) {
  below = dlopen("libmpi.so.40", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}
#define BELOW(name, parameters) ((int(*) parameters)dlsym(below, name))
#define OBJECT(name) dlsym(below, name)

int PMPI_Init(int* argc, char*** argv) { return BELOW("MPI_Init", (int*, char***))(argc, argv); }
int MPI_Init(int* argc, char*** argv) { return PMPI_Init(argc, argv); }
int MPI_Comm_rank(Comm comm, int* rank) {
  return comm != WORLD || BELOW("MPI_Comm_rank", (void*, int*))(OBJECT("ompi_mpi_comm_world"), rank);
}
int MPI_Comm_size(Comm comm, int* size) {
  return comm != WORLD || BELOW("MPI_Comm_size", (void*, int*))(OBJECT("ompi_mpi_comm_world"), size);
}
int MPI_Allreduce(const void* in, void* out, int count, int type, int op, Comm comm) {
  if (comm != WORLD || type != DOUBLE || op != SUM) return 1;
  return BELOW("MPI_Allreduce", (const void*, void*, int, void*, void*, void*))(
      in, out, count, OBJECT("ompi_mpi_double"), OBJECT("ompi_mpi_op_sum"), OBJECT("ompi_mpi_comm_world"));
}
int MPI_Finalize(void) { return BELOW("MPI_Finalize", (void))(); }
#else

int main(void) {
  double in[100], out[100];
  int rank, size, wrong = MPI_Init(0, 0);
  wrong |= MPI_Comm_rank(WORLD, &rank) | MPI_Comm_size(WORLD, &size);
  for (int i = 0; i < 100; ++i) in[i] = rank + i;
  wrong |= MPI_Allreduce(in, out, 100, DOUBLE, SUM, WORLD);
  for (int i = 0; i < 100; ++i) wrong |= out[i] != size * (size - 1) / 2 + size * i;
  return wrong | MPI_Finalize();
}
#endif
