/* NCCL behind dlopen(RTLD_LOCAL), as extensions of interpreters bring it: the client as a plugin. With
 * PLUGIN_DEEPBIND set, opened with that flag. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int deep = getenv("PLUGIN_DEEPBIND") ? RTLD_DEEPBIND : 0;
  void* plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_LAZY | RTLD_LOCAL | deep);
  if (!plugin) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  return ((int (*)(int, char**))(uintptr_t)dlsym(plugin, "main"))(argc - 1, argv + 1);
}
