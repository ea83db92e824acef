/* Stands behind the shim in LD_PRELOAD and ends the process when a collective reaches the original library:
 * what still succeeds was done by somebody else. DDL_TEST_POISON_BYTES=N lets calls of fewer than N bytes
 * through (default 0: none, not even empty ones). */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int refuse(const char* name, int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  const char* limit = getenv("DDL_TEST_POISON_BYTES");
  const long long bytes = (long long)count * size;
  if (bytes < (limit ? atoll(limit) : 0)) return 0;
  fprintf(stderr, "poison: %s of %d elements of %d bytes reached the original library\n", name, count, size);
  abort();
}

static void* next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (!found) {
    fprintf(stderr, "poison: no %s behind this library\n", name);
    abort();
  }
  return found;
}

typedef int blocking(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int nonblocking(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*);

int PMPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  refuse("MPI_Allreduce", count, type);
  return ((blocking*)next("PMPI_Allreduce"))(from, to, count, type, op, comm);
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return PMPI_Allreduce(from, to, count, type, op, comm);
}

int PMPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                    MPI_Request* request) {
  refuse("MPI_Iallreduce", count, type);
  return ((nonblocking*)next("PMPI_Iallreduce"))(from, to, count, type, op, comm, request);
}

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  return PMPI_Iallreduce(from, to, count, type, op, comm, request);
}
