/* The shim's hooks of MPI, generated from hooks.def.
 *
 * Each function is hooked by both its names: by PMPI_X it is called by Open MPI's Fortran bindings and by
 * profiling tools that stand before us, both for the user, and by the MPI library itself, which is left alone
 * (caller.c). Each goes on to what stands behind us under the same name, so that a tool there sees what it
 * would see.
 *
 * The front is loaded at the first MPI_Init*.
 *
 * Hazards, each handled here: a call that the front or a tool behind us makes back into MPI (depth), one of
 * the program's that the original makes, by a callback or an error handler, or that comes after a longjmp()
 * out of one (original_of), a forked child (after_fork), a library that was loaded with RTLD_LOCAL (find_next) or unloaded while we know its functions
 * (find), a child that inherits our environment (DDL_OWNER_PID), an MPI library that we do not know
 * (is_open_mpi), an error handler that throws C++ exceptions (unwound). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/caller.h"
#include "interpose/shim.h"

static ddl_mpi_table next, next_pmpi; /* behind us, by either name */
static ddl_mpi_table front;
static volatile int front_is_up; /* in this very process, not in forked children */
static __thread int depth __attribute__((tls_model("initial-exec")));
static __thread int is_pmpi __attribute__((tls_model("initial-exec"))); /* the call that the front has */
static pthread_once_t front_once = PTHREAD_ONCE_INIT;

static ddl_function find_next(const char* name) { return ddl_find_next(name, "libmpi.so"); }

/* A library whose functions we know stays loaded. */
static ddl_function find(ddl_function* slot, const char* name) {
  ddl_function found = __atomic_load_n(slot, __ATOMIC_RELAXED);
  if (!found && (found = find_next(name)) != NULL) {
    Dl_info info;
    if (dladdr((void*)(uintptr_t)found, &info))
      dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    __atomic_store_n(slot, found, __ATOMIC_RELAXED);
  }
  return found;
}

static __attribute__((noinline)) ddl_function find_or_end(ddl_function* slot, const char* name) {
  ddl_function found = find(slot, name);
  if (!found) ddl_no_such_function(name, "MPI");
  return found;
}

/* In every call. */
static inline ddl_function resolve(ddl_function* slot, const char* name) {
  ddl_function found = __atomic_load_n(slot, __ATOMIC_RELAXED);
  return __builtin_expect(found != NULL, 1) ? found : find_or_end(slot, name);
}

static void after_fork(void) { front_is_up = 0; }

/* The front has one call at a time of each thread. */
static void unwound(void) { depth = 0; }

/* PMPI_Init is another's where the program calls an MPI that stands on this one, with handles of its own
 * (MPItrampoline). */
static int is_open_mpi(void) {
  void* library = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD);
  return library && ddl_dlsym(library, "ompi_mpi_comm_world") && ddl_dlsym(library, "MPI_Init") &&
         (ddl_dlsym(RTLD_DEFAULT, "MPIR_Err_return_comm") == NULL) &&
         (void*)(uintptr_t)find_next("PMPI_Init") == ddl_dlsym(library, "PMPI_Init");
}

/* A process that an MPI process of ours started must not join its parent's job a second time. */
static int is_child_of_owner(void) {
  const char* owner = getenv("DDL_OWNER_PID");
  return owner && atol(owner) != (long)getpid();
}

#define PARAMS_0 void
#define PARAMS_1 ddl_word a
#define PARAMS_2 PARAMS_1, ddl_word b
#define PARAMS_3 PARAMS_2, ddl_word c
#define PARAMS_4 PARAMS_3, ddl_word d
#define PARAMS_5 PARAMS_4, ddl_word e
#define PARAMS_6 PARAMS_5, ddl_word f
#define PARAMS_7 PARAMS_6, ddl_word g
#define PARAMS_8 PARAMS_7, ddl_word h
#define PARAMS_9 PARAMS_8, ddl_word i
#define PARAMS_10 PARAMS_9, ddl_word j
#define PARAMS_11 PARAMS_10, ddl_word k
#define ARGUMENTS_0
#define ARGUMENTS_1 a
#define ARGUMENTS_2 ARGUMENTS_1, b
#define ARGUMENTS_3 ARGUMENTS_2, c
#define ARGUMENTS_4 ARGUMENTS_3, d
#define ARGUMENTS_5 ARGUMENTS_4, e
#define ARGUMENTS_6 ARGUMENTS_5, f
#define ARGUMENTS_7 ARGUMENTS_6, g
#define ARGUMENTS_8 ARGUMENTS_7, h
#define ARGUMENTS_9 ARGUMENTS_8, i
#define ARGUMENTS_10 ARGUMENTS_9, j
#define ARGUMENTS_11 ARGUMENTS_10, k

/* What the front calls as the original of each: what its caller would have called, by the name it used. What
 * the program calls meanwhile is a call of its own, which other ranks may make without a callback. Not so
 * where a tool stands behind us: the call that it goes on with is this one. */
#define DDL_HOOK(name, arguments, handler)                                            \
  static int original_of_##name(PARAMS_##arguments) {                                 \
    int was_depth = depth, was_pmpi = is_pmpi;                                        \
    ddl_function library = resolve(&next_pmpi.name, "P" #name);                       \
    ddl_function call = was_pmpi ? library : resolve(&next.name, #name);              \
    if (call == library) depth = 0;                                                   \
    int result = ((int (*)(PARAMS_##arguments))call)(ARGUMENTS_##arguments);          \
    depth = was_depth;                                                                \
    is_pmpi = was_pmpi;                                                               \
    return result;                                                                    \
  }
#include "interpose/mpi/hooks.def"

static void load_front(void) {
  if (is_child_of_owner() || !getenv("PMIX_NAMESPACE")) return;
  if (!is_open_mpi()) {
    ddl_shim_warn("this program's MPI library is not Open MPI 4 or 5");
    return;
  }
  void* library = ddl_load_sibling("libddl_mpi.so");
  if (!library) return;
  ddl_mpi_table originals;
  ddl_mpi_front_function make = (ddl_mpi_front_function)(uintptr_t)ddl_dlsym(library, "ddl_mpi_front");
#define DDL_HOOK(name, arguments, handler) originals.name = (ddl_function)original_of_##name;
#include "interpose/mpi/hooks.def"
  if (!make || !make(DDL_FRONT_VERSION, &originals, ddl_published_key, unwound, &front)) return;
  char owner[32];
  snprintf(owner, sizeof owner, "%ld", (long)getpid());
  setenv("DDL_OWNER_PID", owner, 1);
  pthread_atfork(NULL, NULL, after_fork);
  front_is_up = 1;
}

static const char kFreeing[] = "MPI_Type_free MPI_Op_free MPI_Comm_free MPI_Comm_disconnect";

/* One shape for every hook: guard, then the front, else what the program would have called. What is freed in
 * a callback, with a call of the program's in the front, is freed all the same. */
#define DDL_HOOK_AS(symbol, behind, name, arguments, pmpi, is_late)              \
  DDL_EXPORT int symbol(PARAMS_##arguments) {                                    \
    if (is_late && !__atomic_load_n(&front.name, __ATOMIC_RELAXED)) {            \
      ddl_function original = resolve(&behind.name, #symbol);                    \
      return ((int (*)(PARAMS_##arguments))original)(ARGUMENTS_##arguments);     \
    }                                                                            \
    int is_init = strstr("MPI_Init MPI_Init_thread", #name) != NULL;             \
    int is_free = strstr(kFreeing, #name) != NULL;                               \
    int use_front = (depth == 0 || is_free) && (front_is_up || is_init) &&       \
                    (!(pmpi) || ddl_is_users_call(__builtin_return_address(0))); \
    if (is_init && use_front) {                                                  \
      pthread_once(&front_once, load_front);                                     \
      use_front = front_is_up;                                                   \
    }                                                                            \
    ddl_function call = use_front ? front.name : resolve(&behind.name, #symbol); \
    int was_depth = depth, was_pmpi = is_pmpi;                                   \
    if (use_front) is_pmpi = (pmpi);                                             \
    depth = was_depth + use_front;                                               \
    int result = ((int (*)(PARAMS_##arguments))call)(ARGUMENTS_##arguments);     \
    depth = was_depth;                                                           \
    if (is_free && use_front) is_pmpi = was_pmpi;                                \
    return result;                                                               \
  }
#define DDL_HOOK(name, arguments, handler)       \
  DDL_HOOK_AS(name, next, name, arguments, 0, 0) \
  DDL_HOOK_AS(P##name, next_pmpi, name, arguments, 1, 0)
#define DDL_LATE_HOOK(name, arguments, handler)  \
  DDL_HOOK_AS(name, next, name, arguments, 0, 1) \
  DDL_HOOK_AS(P##name, next_pmpi, name, arguments, 1, 1)
#include "interpose/mpi/hooks.def"

static const struct hook {
  const char* name;
  ddl_function hook, *original;
} hooks[] = {
#define DDL_HOOK(name, arguments, handler) \
  {#name, (ddl_function)name, &next.name}, {"P" #name, (ddl_function)P##name, &next_pmpi.name},
#include "interpose/mpi/hooks.def"
};

void* ddl_mpi_hook_of(const char* name, const void* found) {
  if (!getenv("PMIX_NAMESPACE")) return NULL; /* outside a job */
  for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; ++i)
    if (strcmp(hooks[i].name, name) == 0)
      return (const void*)(uintptr_t)find(hooks[i].original, name) == found ? (void*)(uintptr_t)hooks[i].hook
                                                                            : NULL;
  return NULL;
}
