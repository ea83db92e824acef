/* Two functions of PMIx, as Open MPI calls them in MPI_Init. Our fronts begin PMIx before that, to say what
 * MPI_Init then carries to all ranks.
 *
 * Open MPI 5 asks whether PMIx has been begun and then goes without PMIx_Init, which alone tells it its name
 * in the job, and fails. PMIx counts its users, so its own beginning is always right: it gets a no.
 *
 * What it tells all ranks it puts under keys of its own. One of them is noted: see PmixExchange::fetch. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "interpose/caller.h"
#include "interpose/shim.h"

typedef int initialized_function(void);
typedef int put_function(uint8_t scope, const char* key, void* value);
DDL_EXPORT initialized_function PMIx_Initialized;
DDL_EXPORT put_function PMIx_Put;

enum { PMIX_ERROR = -1, PMIX_REMOTE = 2, PMIX_GLOBAL = 3 };

static char published[128];

/* PMIx belongs to whoever has begun it: it may be in nobody's search order. */
static ddl_function next(const char* name) { return ddl_find_next(name, "libpmix.so"); }

int PMIx_Initialized(void) {
  if (!ddl_is_users_call(__builtin_return_address(0))) return 0;
  ddl_function original = next("PMIx_Initialized");
  return original ? ((initialized_function*)original)() : 0;
}

/* The first key: rank 0 has more than the others, which come last. */
int PMIx_Put(uint8_t scope, const char* key, void* value) {
  if (!*published && key && (scope == PMIX_REMOTE || scope == PMIX_GLOBAL) &&
      !ddl_is_users_call(__builtin_return_address(0)))
    snprintf(published, sizeof published, "%s", key);
  ddl_function original = next("PMIx_Put");
  return original ? ((put_function*)original)(scope, key, value) : PMIX_ERROR;
}

const char* ddl_published_key(void) { return published; }

void* ddl_pmix_hook_of(const char* name, const void* found) {
  ddl_function hook = strcmp(name, "PMIx_Initialized") == 0 ? (ddl_function)PMIx_Initialized
                      : strcmp(name, "PMIx_Put") == 0       ? (ddl_function)PMIx_Put
                                                            : NULL;
  return hook && (const void*)(uintptr_t)next(name) == found ? (void*)(uintptr_t)hook : NULL;
}
