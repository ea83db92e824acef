/* libddl_shim.so: the one preloaded object. Here: what its hooks share. mpi/hooks.c has those of MPI,
 * nccl/hooks.c NCCL's, gloo/hooks.c gloo's.
 *
 * It needs libc alone, has no constructor and does nothing until the first MPI_Init*, the first call of
 * gloo's or the first sign of NCCL: then it loads the sibling that knows the work, hands it the functions the
 * program would have called, and from then on asks it. In a process that uses none of them it only passes on
 * what is asked of dlsym (lookup.c) and dlopen (deep_binding.c), and names what it cannot serve
 * (unserved.c). A front is never unloaded. */
#define _GNU_SOURCE
#include "interpose/shim.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/whole_library.h"

struct loaded_file {
  const char *starts_with, *path;
};

static int first_of_that_name(struct dl_phdr_info* info, size_t size, void* wanted) {
  struct loaded_file* file = wanted;
  const char* slash = strrchr(info->dlpi_name, '/');
  (void)size;
  if (strncmp(slash ? slash + 1 : info->dlpi_name, file->starts_with, strlen(file->starts_with)) != 0)
    return 0;
  file->path = info->dlpi_name;
  return 1;
}

ddl_function ddl_find_next(const char* name, const char* library) {
  void* found = ddl_dlsym(RTLD_NEXT, name);
  if (!found) {
    struct loaded_file file = {library, NULL};
    dl_iterate_phdr(first_of_that_name, &file);
    void* loaded = file.path ? dlopen(file.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (loaded) found = ddl_dlsym(loaded, name);
  }
  return (ddl_function)(uintptr_t)found;
}

void ddl_no_such_function(const char* name, const char* kind) {
  fprintf(stderr, "ddl: error: no %s library in this process defines %s; link the program with one\n", kind,
          name);
  _exit(127);
}

int ddl_speaks_for_the_job(void) {
  const char* rank = getenv("PMIX_RANK") ? getenv("PMIX_RANK") : getenv("RANK");
  return !rank || strcmp(rank, "0") == 0;
}

void ddl_shim_warn(const char* why) {
  if (ddl_speaks_for_the_job())
    fprintf(stderr, "ddl: warning: collectives use the original library: %s\n", why);
}

void* ddl_load_sibling(const char* file) {
  Dl_info self;
  char path[4096];
  if (!dladdr((void*)(uintptr_t)ddl_load_sibling, &self)) return NULL;
  const char* slash = strrchr(self.dli_fname, '/');
  int folder = slash ? (int)(slash - self.dli_fname) : 1;
  snprintf(path, sizeof path, "%.*s/%s", folder, slash ? self.dli_fname : ".", file);
  if (ddl_is_cut_short(path)) {
    char why[sizeof path + 32];
    snprintf(why, sizeof why, "%s: the file is cut short", path);
    ddl_shim_warn(why);
    return NULL;
  }
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) ddl_shim_warn(dlerror());
  return library;
}

void* ddl_hook_of(const char* name, const void* found) {
  const char* enable = getenv("DDL_ENABLE");
  if (enable && strcmp(enable, "0") == 0) return NULL;
  if (name[0] == 'n') return ddl_nccl_hook_of(name, found);
  return strncmp(name, "PMIx", 4) == 0 ? ddl_pmix_hook_of(name, found) : ddl_mpi_hook_of(name, found);
}
