/* Collectives on device pointers (of the test double, whose memory the host cannot read) under an MPI that
 * knows no CUDA: all-reduces with both buffers on the device, in place, and one rank on the host while the
 * others are on the device; by the engine, by MPI itself (an operation of the program's own; calls so often
 * that MPI itself is tried), and broadcasts, also of a type with gaps; nonblocking ones too. `refused`: those
 * where we have no part in MPI's waits. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuMemAlloc_v2(uintptr_t* address, size_t bytes);
int cuMemcpy(uintptr_t to, uintptr_t from, size_t bytes);

enum { kCount = 50000 };

static void add(void* in, void* out, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((float*)out)[i] += ((float*)in)[i];
}

static int run(int rank, int size, int in_place, int on_host, MPI_Op op) {
  static float host[kCount], result[kCount];
  uintptr_t in, out;
  cuMemAlloc_v2(&in, sizeof host);
  cuMemAlloc_v2(&out, sizeof host);
  for (int i = 0; i < kCount; ++i) host[i] = (float)(rank + i % 100);
  if (on_host) {
    MPI_Allreduce(host, result, kCount, MPI_FLOAT, op, MPI_COMM_WORLD);
  } else {
    cuMemcpy(in_place ? out : in, (uintptr_t)host, sizeof host);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : (void*)in, (void*)out, kCount, MPI_FLOAT, op, MPI_COMM_WORLD);
    cuMemcpy((uintptr_t)result, out, sizeof result);
  }
  for (int i = 0; i < kCount; ++i)
    if (result[i] != (float)(size * (size - 1) / 2 + size * (i % 100))) return 1;
  return 0;
}

/* Every second float of a buffer, from `root`. */
static int broadcast(int rank, int root, int on_host) {
  static float host[kCount];
  uintptr_t device;
  MPI_Datatype every_second;
  MPI_Type_vector(kCount / 4, 1, 2, MPI_FLOAT, &every_second);
  MPI_Type_commit(&every_second);
  for (int i = 0; i < kCount; ++i) host[i] = (float)(rank * kCount + i);
  cuMemAlloc_v2(&device, sizeof host);
  cuMemcpy(device, (uintptr_t)host, sizeof host);
  MPI_Bcast(on_host ? (void*)host : (void*)device, 1, every_second, root, MPI_COMM_WORLD);
  if (!on_host) cuMemcpy((uintptr_t)host, device, sizeof host);
  int from_root = kCount / 2 - 1; /* the last float of the type */
  MPI_Type_free(&every_second);
  for (int i = 0; i < kCount; ++i)
    if (host[i] != (float)((i % 2 == 0 && i <= from_root ? root : rank) * kCount + i)) return 1;
  return 0;
}

/* Two at once, one of them in place; waited for together, or tested for one after the other. */
static int run_nonblocking(int rank, int size, int on_host, MPI_Op op) {
  static float host[kCount], result[2][kCount];
  uintptr_t buffers[3];
  MPI_Request requests[2];
  for (int i = 0; i < kCount; ++i) host[i] = (float)(rank + i % 100);
  for (int i = 0; i < 3; ++i) {
    buffers[i] = (uintptr_t)malloc(sizeof host);
    if (!on_host) cuMemAlloc_v2(&buffers[i], sizeof host);
    cuMemcpy(buffers[i], (uintptr_t)host, sizeof host);
  }
  MPI_Iallreduce((void*)buffers[0], (void*)buffers[1], kCount, MPI_FLOAT, op, MPI_COMM_WORLD, &requests[0]);
  MPI_Iallreduce(MPI_IN_PLACE, (void*)buffers[2], kCount, MPI_FLOAT, op, MPI_COMM_WORLD, &requests[1]);
  if (rank == 0) {
    for (int i = 1, done = 0; i >= 0; --i, done = 0)
      while (!done) MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
  } else {
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  for (int i = 0; i < 2; ++i) cuMemcpy((uintptr_t)result[i], buffers[i + 1], sizeof host);
  for (int i = 0; i < kCount; ++i)
    for (int j = 0; j < 2; ++j)
      if (result[j][i] != (float)(size * (size - 1) / 2 + size * (i % 100))) return 1;
  return 0;
}

static int refused(MPI_Op op) {
  uintptr_t buffer;
  MPI_Request request = MPI_REQUEST_NULL;
  cuMemAlloc_v2(&buffer, sizeof(float));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int result = MPI_Iallreduce(MPI_IN_PLACE, (void*)buffer, 1, MPI_FLOAT, op, MPI_COMM_WORLD, &request);
  return result == MPI_SUCCESS || request != MPI_REQUEST_NULL;
}

/* A job that is young tries nothing. */
static int tried(int rank, int size) {
  usleep(1000000);
  for (int i = 0; i < 400; ++i)
    if (run(rank, size, 0, 0, MPI_SUM)) return 1;
  return 0;
}

int main(int argc, char** argv) {
  int rank, size;
  void* context = NULL;
  MPI_Init(&argc, &argv);
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Op own;
  MPI_Op_create(add, 0, &own); /* said not to commute: for MPI itself */
  if (argc > 1 && strcmp(argv[1], "refused") == 0) {
    int taken = refused(own);
    MPI_Finalize();
    return taken;
  }
  int wrong = run(rank, size, 0, 0, MPI_SUM) | run(rank, size, 1, 0, MPI_SUM) |
              run(rank, size, 0, rank == 0, MPI_SUM) | run_nonblocking(rank, size, 0, MPI_SUM);
  if (wrong) fprintf(stderr, "device_client: rank %d: a sum of the engine is wrong\n", rank);
  if (run(rank, size, 0, 0, own) | run(rank, size, 1, 0, own) | run(rank, size, 0, rank == 0, own))
    wrong = fprintf(stderr, "device_client: rank %d: a sum of MPI is wrong\n", rank);
  if (run_nonblocking(rank, size, 0, own) | run_nonblocking(rank, size, rank == 1, own))
    wrong = fprintf(stderr, "device_client: rank %d: a nonblocking sum of MPI is wrong\n", rank);
  MPI_Op_free(&own);
  if (broadcast(rank, 0, 0) | broadcast(rank, size - 1, rank == 0))
    wrong = fprintf(stderr, "device_client: rank %d: a broadcast is wrong\n", rank);
  if (argc > 1 && tried(rank, size))
    wrong = fprintf(stderr, "device_client: rank %d: a sum of many is wrong\n", rank);
  MPI_Finalize();
  return wrong != 0;
}
