/* All-reduces on device pointers (of the test double) under an MPI that knows no CUDA: both buffers on the
 * device, in place, and one rank on the host while the others are on the device. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuMemAlloc_v2(uintptr_t* address, size_t bytes);
int cuMemcpy(uintptr_t to, uintptr_t from, size_t bytes);

enum { kCount = 50000 };

static int run(int rank, int size, int in_place, int on_host) {
  static float host[kCount], result[kCount];
  uintptr_t in, out;
  cuMemAlloc_v2(&in, sizeof host);
  cuMemAlloc_v2(&out, sizeof host);
  for (int i = 0; i < kCount; ++i) host[i] = (float)(rank + i % 100);
  if (on_host) {
    MPI_Allreduce(host, result, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else {
    cuMemcpy(in_place ? out : in, (uintptr_t)host, sizeof host);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : (void*)in, (void*)out, kCount, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    cuMemcpy((uintptr_t)result, out, sizeof result);
  }
  for (int i = 0; i < kCount; ++i)
    if (result[i] != (float)(size * (size - 1) / 2 + size * (i % 100))) return 1;
  return 0;
}

int main(int argc, char** argv) {
  int rank, size;
  void* context = NULL;
  MPI_Init(&argc, &argv);
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int wrong = run(rank, size, 0, 0) | run(rank, size, 1, 0) | run(rank, size, 0, rank == 0);
  if (wrong) fprintf(stderr, "device_client: rank %d: a sum is wrong\n", rank);
  MPI_Finalize();
  return wrong;
}
