/* Preloaded: counts what libddl_nccl.so and libddl.so ask malloc for in a thread that wants to know. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void* __libc_malloc(size_t bytes);
__attribute__((visibility("default"))) void allocations_begin(void);
__attribute__((visibility("default"))) size_t allocations_end(void);

enum { kLibraries = 2 };
static struct {
  const char* name;
  uintptr_t begin, end;
} ours[kLibraries] = {{"/libddl_nccl.so", 0, 0}, {"/libddl.so", 0, 0}};
static __thread int counts __attribute__((tls_model("initial-exec")));
static __thread size_t counted __attribute__((tls_model("initial-exec")));

static int look(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)size, (void)unused;
  for (int i = 0; i < kLibraries; ++i) {
    size_t length = strlen(info->dlpi_name), suffix = strlen(ours[i].name);
    if (length < suffix || strcmp(info->dlpi_name + length - suffix, ours[i].name) != 0) continue;
    ours[i].begin = info->dlpi_addr;
    for (int p = 0; p < info->dlpi_phnum; ++p) {
      uintptr_t end = info->dlpi_addr + info->dlpi_phdr[p].p_vaddr + info->dlpi_phdr[p].p_memsz;
      if (info->dlpi_phdr[p].p_type == PT_LOAD && end > ours[i].end) ours[i].end = end;
    }
  }
  return 0;
}

__attribute__((visibility("default"))) void* malloc(size_t bytes) {
  uintptr_t caller = (uintptr_t)__builtin_return_address(0);
  for (int i = 0; counts && i < kLibraries; ++i) counted += caller >= ours[i].begin && caller < ours[i].end;
  return __libc_malloc(bytes);
}

void allocations_begin(void) {
  dl_iterate_phdr(look, NULL);
  counted = 0;
  counts = 1;
}

size_t allocations_end(void) {
  counts = 0;
  return counted;
}
