/* The shim's hooks of NCCL, generated from hooks.def. They stand before NCCL's own weak symbols.
 *
 * The front is loaded at the first ncclGetUniqueId, ncclCommInit* or ncclGroupStart, which may open a group
 * of initialisations; or at any function that no library in the process defines. Until then, and where it has
 * nothing to say, the original is called.
 *
 * Hazards, each handled here: libnccl calls some of its own public functions by name, in the program's thread
 * (depth) and in its own (from_original); a forked child (after_fork); a libnccl loaded with RTLD_LOCAL, or
 * unloaded while we know its functions (learn_original); two of them in one process (ddl_nccl_hook_of). */
#define _GNU_SOURCE
#include "interpose/nccl/nccl_api.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/shim.h"

static ddl_nccl_table next;
static ddl_nccl_table front;
static int front_is_up;    /* in this very process, not in forked children */
static int front_is_alone; /* it was loaded where there was no NCCL, and takes it that there is none */
static __thread int depth __attribute__((tls_model("initial-exec")));
static pthread_once_t front_once = PTHREAD_ONCE_INIT;
static uintptr_t original_begin, original_end; /* where libnccl is mapped */

static int mapping_of(struct dl_phdr_info* info, size_t size, void* inside) {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (at < begin) begin = at;
    if (at + info->dlpi_phdr[i].p_memsz > end) end = at + info->dlpi_phdr[i].p_memsz;
  }
  if ((uintptr_t)inside < begin || (uintptr_t)inside >= end) return 0;
  __atomic_store_n(&original_begin, begin, __ATOMIC_RELAXED);
  __atomic_store_n(&original_end, end, __ATOMIC_RELEASE);
  return 1;
}

/* Where it is, and that it stays there. */
static void learn_original(void* inside) {
  Dl_info found;
  dl_iterate_phdr(mapping_of, inside);
  if (dladdr(inside, &found)) dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static int count_loads(struct dl_phdr_info* info, size_t size, void* loads) {
  (void)size;
  *(unsigned long long*)loads = info->dlpi_adds;
  return 1;
}

/* A function that no library has is looked for again once there are more libraries: where the engine works
 * without NCCL each call would look, which costs more than all else that it does here. */
static ddl_function find(ddl_function* slot, const char* name) {
  static unsigned long long missing_at[sizeof next / sizeof(ddl_function)]; /* so many loads */
  unsigned long long loads = 0, *missing = &missing_at[slot - (ddl_function*)&next];
  ddl_function found = __atomic_load_n(slot, __ATOMIC_RELAXED);
  if (found) return found;
  dl_iterate_phdr(count_loads, &loads);
  if (__atomic_load_n(missing, __ATOMIC_RELAXED) == loads) return NULL;
  found = ddl_find_next(name, "libnccl.so");
  if (!found) __atomic_store_n(missing, loads, __ATOMIC_RELAXED);
  if (found && !__atomic_load_n(&original_end, __ATOMIC_ACQUIRE)) learn_original((void*)(uintptr_t)found);
  __atomic_store_n(slot, found, __ATOMIC_RELAXED);
  return found;
}

static int from_original(const void* address) {
  return (uintptr_t)address < __atomic_load_n(&original_end, __ATOMIC_ACQUIRE) &&
         (uintptr_t)address >= __atomic_load_n(&original_begin, __ATOMIC_RELAXED);
}

/* What a process has made of communicators is not its forked child's. One that has made none, but an id for
 * its children, leaves them all they need. */
static int has_communicators;
static void after_fork(void) {
  if (has_communicators) front_is_up = 0;
}

static void load_front(void) {
  void* library = ddl_load_sibling("libddl_nccl.so");
  ddl_nccl_front_function make =
      library ? (ddl_nccl_front_function)(uintptr_t)ddl_dlsym(library, "ddl_nccl_front") : NULL;
#define DDL_NCCL_HOOK(result, name, parameters, arguments) find(&next.name, #name);
#include "interpose/nccl/hooks.def"
#undef DDL_NCCL_HOOK
  if (!make || !make(DDL_FRONT_VERSION, &next, &front)) return;
  front_is_alone = !next.ncclCommInitRank;
  pthread_atfork(NULL, NULL, after_fork);
  __atomic_store_n(&front_is_up, 1, __ATOMIC_RELEASE);
}

static int begins_use(const char* name) {
  return strncmp(name, "ncclCommInit", 12) == 0 || strcmp(name, "ncclGetUniqueId") == 0 ||
         strcmp(name, "ncclGroupStart") == 0;
}

/* Whom this call goes to. `entered`: the front, until leave(). */
static ddl_function enter(ddl_function* of_front, ddl_function* of_original, const char* name,
                          const void* caller, int* entered) {
  ddl_function found = find(of_original, name); /* before from_original(), which it teaches */
  if (depth == 0 && !from_original(caller)) {
    if (!__atomic_load_n(&front_is_up, __ATOMIC_ACQUIRE) && (begins_use(name) || !found))
      pthread_once(&front_once, load_front);
    if (__atomic_load_n(&front_is_up, __ATOMIC_ACQUIRE) && *of_front) {
      if (!__atomic_load_n(&has_communicators, __ATOMIC_RELAXED) && strncmp(name, "ncclCommInit", 12) == 0)
        __atomic_store_n(&has_communicators, 1, __ATOMIC_RELAXED);
      *entered = 1;
      ++depth;
      return *of_front;
    }
  }
  if (!found) ddl_no_such_function(name, "NCCL");
  return found;
}

static inline void leave(const int* entered) { depth -= *entered; }

#define DDL_NCCL_HOOK(result, name, parameters, arguments)                                            \
  DDL_EXPORT result name parameters {                                                                 \
    __attribute__((cleanup(leave))) int entered = 0;                                                  \
    ddl_function call = enter(&front.name, &next.name, #name, __builtin_return_address(0), &entered); \
    return ((result(*) parameters)call)arguments;                                                     \
  }
#include "interpose/nccl/hooks.def"
#undef DDL_NCCL_HOOK

static const struct hook {
  const char* name;
  ddl_function hook, *original;
} hooks[] = {
#define DDL_NCCL_HOOK(result, name, parameters, arguments) {#name, (ddl_function)name, &next.name},
#include "interpose/nccl/hooks.def"
#undef DDL_NCCL_HOOK
};
enum { kHooks = sizeof hooks / sizeof hooks[0] };

/* Whether our hooks call one and the same library. They do not where another preloaded object wraps some of
 * NCCL's functions: who asks for NCCL's own goes past that, and what would come to us was no whole. */
static int all_from_original(void) {
  static int known;
  if (__atomic_load_n(&known, __ATOMIC_RELAXED)) return 1;
  for (int i = 0; i < kHooks; ++i) {
    ddl_function found = find(hooks[i].original, hooks[i].name);
    if (found && !from_original((const void*)(uintptr_t)found)) return 0;
  }
  __atomic_store_n(&known, 1, __ATOMIC_RELAXED);
  return 1;
}

void* ddl_nccl_hook_of(const char* name, const void* found) {
  if (__atomic_load_n(&front_is_up, __ATOMIC_ACQUIRE) && front_is_alone) return NULL;
  for (int i = 0; i < kHooks; ++i)
    if (strcmp(hooks[i].name, name) == 0)
      return (const void*)(uintptr_t)find(hooks[i].original, name) == found && all_from_original()
                 ? (void*)(uintptr_t)hooks[i].hook
                 : NULL;
  return NULL;
}
