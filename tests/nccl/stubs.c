/* Every function of NCCL as a hidden stub that asks dlopen and dlsym, as programs do that ship without NCCL.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "interpose/nccl/nccl_api.h"

static void* function(const char* name) {
  void* library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  void* found = library ? dlsym(library, name) : NULL;
  if (!found) {
    fprintf(stderr, "stubs: no %s: %s\n", name, dlerror());
    exit(4);
  }
  return found;
}

#define DDL_NCCL_HOOK(result, name, parameters, arguments)              \
  __attribute__((visibility("hidden"))) result name parameters {        \
    return ((result(*) parameters)(uintptr_t)function(#name))arguments; \
  }
#include "interpose/nccl/hooks.def"
