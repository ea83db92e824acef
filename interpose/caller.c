/* Whose call it is, told by the file that the caller's code was loaded from.
 *
 * Nothing is remembered from one call to the next, since an address may be another file's by then: plugins
 * come and go. The dynamic linker has a table of what is loaded, which it keeps sorted for those who unwind
 * stacks; it reads that without a lock. The file cannot go while its code waits for the call to return.
 *
 * Where glibc is older than 2.35 the list of what is loaded is walked, under the dynamic linker's lock:
 * right, but slower by some tenths of a microsecond. */
#define _GNU_SOURCE
#include "interpose/caller.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The files whose calls of MPI are no user's, by how their names begin: the library with all it is made of
 * (ROMIO is mca_io_romio*), OpenSHMEM's that stands on it, and ours. Not so libmpi_mpifh, libmpi_usempif08,
 * libmpi_cxx and libmpi_java: through these users call. */
static const char* const kLibraries[] = {
    "libmpi.so",    "mca_",      "libmca_",       "libopen-pal.so", "libopen-rte.so", "libprrte.so",
    "liboshmem.so", "libddl.so", "libddl_mpi.so", "libddl_shim.so", "libddl_nccl.so", "libddl_gloo.so",
};

static int is_a_library(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* name = slash ? slash + 1 : path;
  if (*name != 'l' && *name != 'm') return 0;
  for (size_t i = 0; i < sizeof kLibraries / sizeof kLibraries[0]; ++i)
    if (strncmp(name, kLibraries[i], strlen(kLibraries[i])) == 0) return 1;
  return 0;
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35) && !defined(DDL_WALK_LOADED_FILES)

int ddl_is_users_call(const void* return_address) {
  struct dl_find_object found;
  return _dl_find_object((void*)(uintptr_t)return_address, &found) != 0 ||
         !is_a_library(found.dlfo_link_map->l_name);
}

#else

struct search {
  ElfW(Addr) address;
  int is_users;
};

static int look_into(struct dl_phdr_info* info, size_t size, void* context) {
  struct search* search = context;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || search->address - info->dlpi_addr - part->p_vaddr >= part->p_memsz)
      continue;
    search->is_users = !is_a_library(info->dlpi_name);
    return 1;
  }
  return 0;
}

int ddl_is_users_call(const void* return_address) {
  struct search search = {(ElfW(Addr))return_address, 1};
  dl_iterate_phdr(look_into, &search);
  return search.is_users;
}

#endif
