/* Preloaded: an MPI library that offers no part in its progress. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

typedef void* lookup(void* handle, const char* name);

__attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) {
  lookup* next = (lookup*)(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  return strcmp(name, "opal_progress_register") == 0 ? NULL : next(handle, name);
}
