/* The dlsym behind our own (lookup.c), which may be another's hook. It is found by dlvsym, which is not ours.
 *
 * Written for x86-64 with glibc; elsewhere dlsym is not ours. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "interpose/shim.h"

#if defined(__x86_64__) && defined(__GLIBC__)

static ddl_lookup_function* next_lookup; /* alike whoever finds it */

DDL_PLAIN_CODE ddl_lookup_function* ddl_next_lookup(void) {
  ddl_lookup_function* next = __atomic_load_n(&next_lookup, __ATOMIC_RELAXED);
  if (next) return next;
  next = (ddl_lookup_function*)(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  __atomic_store_n(&next_lookup, next, __ATOMIC_RELAXED);
  return next;
}

void* ddl_dlsym(void* handle, const char* name) {
  ddl_lookup_function* next = ddl_next_lookup();
  return next ? next(handle, name) : NULL;
}

#else

void* ddl_dlsym(void* handle, const char* name) { return dlsym(handle, name); }

#endif
