/* NCCL behind dlopen(RTLD_LOCAL), as extensions of interpreters bring it: the client as a plugin. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_LAZY | RTLD_LOCAL);
  if (!plugin) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  return ((int (*)(int, char**))(uintptr_t)dlsym(plugin, "main"))(argc - 1, argv + 1);
}
