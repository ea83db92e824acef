/* What the clients count and check. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/client.h"

enum { kMostNames = 32 };

int wrong;

static struct {
  const char* name;
  uint64_t calls, bytes;
} tallied[kMostNames];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void tally(const char* name, uint64_t bytes) {
  int i = 0;
  pthread_mutex_lock(&mutex);
  while (tallied[i].name && strcmp(tallied[i].name, name) != 0) ++i;
  tallied[i].name = name;
  ++tallied[i].calls;
  tallied[i].bytes += bytes;
  pthread_mutex_unlock(&mutex);
}

void print_tally(void) {
  for (int i = 0; tallied[i].name; ++i)
    printf("tally %s %llu %llu\n", tallied[i].name, (unsigned long long)tallied[i].calls,
           (unsigned long long)tallied[i].bytes);
}

void check(int right, const char* what) {
  if (right) return;
  if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 10) fprintf(stderr, "client: wrong: %s\n", what);
}

void expect(const char* what, int got, int wanted) {
  if (got == wanted) return;
  if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 10)
    fprintf(stderr, "client: %s: %s instead of %s (%s)\n", what, ncclGetErrorString((ncclResult_t)got),
            ncclGetErrorString((ncclResult_t)wanted), ncclGetLastError(NULL));
}

double value(int rank, size_t i) { return rank < 0 ? -1 : (double)((rank + 1) * 64 + (int)(i % 61)); }

double* values(int rank, size_t n) {
  double* made = malloc((n + 1) * sizeof *made);
  for (size_t i = 0; i < n; ++i) made[i] = value(rank, i);
  return made;
}

uint64_t hash(uint64_t so_far, const void* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) so_far = (so_far ^ ((const unsigned char*)data)[i]) * 1099511628211u;
  return so_far;
}
