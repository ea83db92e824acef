/* A test double of the CUDA driver (SONAME libcuda.so.1): its "device memory" is mapped without any access
 * right, so a CPU kernel that touches it dies at once; only its own copy function opens it for a moment. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { kMost = 64 };
static struct {
  uintptr_t begin;
  size_t bytes;
} areas[kMost];
static int used;

static int area_of(uintptr_t address) {
  for (int i = 0; i < used; ++i)
    if (address >= areas[i].begin && address < areas[i].begin + areas[i].bytes) return i;
  return -1;
}

int cuMemAlloc_v2(uintptr_t* address, size_t bytes) {
  bytes = (bytes + 4095) / 4096 * 4096;
  void* memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || used == kMost) return 2;
  *address = areas[used].begin = (uintptr_t)memory;
  areas[used++].bytes = bytes;
  return 0;
}

int cuPointerGetAttribute(void* data, int attribute, uintptr_t address) {
  if (area_of(address) < 0) return 1;       /* CUDA_ERROR_INVALID_VALUE: not ours */
  if (attribute == 2) *(unsigned*)data = 2; /* memory type: device */
  if (attribute == 8) *(unsigned*)data = 0; /* not managed */
  return 0;
}

static void protect(uintptr_t address, int rights) {
  int area = area_of(address);
  if (area >= 0) mprotect((void*)areas[area].begin, areas[area].bytes, rights);
}

int cuMemcpy(uintptr_t to, uintptr_t from, size_t bytes) {
  protect(to, PROT_READ | PROT_WRITE);
  protect(from, PROT_READ | PROT_WRITE);
  memcpy((void*)to, (void*)from, bytes);
  protect(to, PROT_NONE);
  protect(from, PROT_NONE);
  return 0;
}
