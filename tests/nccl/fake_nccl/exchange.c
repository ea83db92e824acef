/* How the ranks of a communicator meet: one shared mapping, one barrier. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/nccl/fake_nccl/fake.h"

static char last_error[160]; /* of the process, as NCCL's */
static pthread_mutex_t last_error_mutex = PTHREAD_MUTEX_INITIALIZER;

FAKE_API const char* ncclGetLastError(ncclComm_t comm) { return fake_valid(comm) ? comm->error : last_error; }

ncclResult_t fake_fail(ncclComm_t comm, ncclResult_t result, const char* format, ...) {
  va_list arguments;
  pthread_mutex_lock(&last_error_mutex);
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  if (comm) memcpy(comm->error, last_error, sizeof last_error);
  pthread_mutex_unlock(&last_error_mutex);
  return result;
}

struct area* fake_area(const char* name) {
  int file = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return NULL;
  void* mapped = MAP_FAILED;
  if (ftruncate(file, sizeof(struct area)) == 0)
    mapped = mmap(NULL, sizeof(struct area), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? NULL : mapped;
}

void fake_area_close(struct area* area) {
  if (area) munmap(area, sizeof *area);
}

ncclResult_t fake_wait(ncclComm_t comm, unsigned* waited) {
  enum { kYields = 1000, kLongest = 2000000 }; /* about 200 seconds */
  if (atomic_load(&comm->area->aborted)) return fake_fail(comm, ncclRemoteError, "a rank has aborted");
  if (++*waited < kYields)
    sched_yield();
  else if (*waited < kLongest)
    usleep(100);
  else
    return fake_fail(comm, ncclRemoteError, "rank %d waited too long for the others", comm->rank);
  return ncclSuccess;
}

ncclResult_t fake_barrier(ncclComm_t comm) {
  struct area* area = comm->area;
  unsigned round = atomic_load(&area->round), waited = 0;
  if (atomic_fetch_add(&area->arrived, 1) + 1 == (unsigned)comm->size) {
    atomic_store(&area->arrived, 0);
    atomic_fetch_add(&area->round, 1);
    return ncclSuccess;
  }
  while (atomic_load(&area->round) == round) {
    ncclResult_t result = fake_wait(comm, &waited);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t fake_exchange(ncclComm_t comm, const struct endpoint* mine, struct endpoint* all) {
  comm->area->endpoints[comm->rank] = *mine;
  ncclResult_t result = fake_barrier(comm);
  if (result != ncclSuccess) return result;
  memcpy(all, comm->area->endpoints, sizeof *all * (size_t)comm->size);
  return fake_barrier(comm);
}
