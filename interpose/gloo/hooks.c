/* The shim's hooks of gloo, whose collectives are C++ functions: `gloo::allreduce(const AllreduceOptions&)`.
 *
 * libtorch_cpu calls them through its table of imports, whether gloo is a library of its own or part of
 * libtorch_cpu, and so does whatever else has brought a gloo. The front is loaded at the first call.
 *
 * Hazards, each handled here: a library that was loaded with RTLD_LOCAL, as Python's modules are (the
 * original is looked up in what the caller itself is linked to, and several of them may be in one process);
 * an exception of gloo's, which passes this frame, since it has nothing to clean up; one of ours, which only
 * the C++ runtime of the process may throw (raise); a forked child (after_fork). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "interpose/shim.h"

#define ALL_REDUCE _ZN4gloo9allreduceERKNS_16AllreduceOptionsE
#define NAME_OF(symbol) NAME_OF_(symbol)
#define NAME_OF_(symbol) #symbol
DDL_EXPORT void ALL_REDUCE(const void* options);

static ddl_gloo_functions front;
static int front_is_up; /* in this very process, not in forked children */
static pthread_once_t front_once = PTHREAD_ONCE_INIT;

static void after_fork(void) { __atomic_store_n(&front_is_up, 0, __ATOMIC_RELEASE); }

static void load_front(void) {
  void* library = ddl_load_sibling("libddl_gloo.so");
  ddl_gloo_front_function make =
      library ? (ddl_gloo_front_function)(uintptr_t)ddl_dlsym(library, "ddl_gloo_front") : NULL;
  if (!make || !make(DDL_FRONT_VERSION, &front)) return;
  pthread_atfork(NULL, NULL, after_fork);
  __atomic_store_n(&front_is_up, 1, __ATOMIC_RELEASE);
}

/* Ours is found where the caller's library only imports it. */
static ddl_gloo_original* find_original(const char* name, const void* caller, const void* ours) {
  Dl_info found;
  void* library = dladdr(caller, &found) ? dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  void* original = library ? ddl_dlsym(library, name) : NULL;
  if (library) dlclose(library);
  if (!original || original == ours) original = ddl_dlsym(RTLD_NEXT, name);
  if (!original) ddl_no_such_function(name, "gloo");
  return (ddl_gloo_original*)(uintptr_t)original;
}

typedef struct call_place {
  const void* caller;
  ddl_gloo_original* original;
  ddl_gloo_original* all_reduce; /* of the same gloo */
} call_place;

/* The places that call are few. One that two threads see first at once may be known twice. */
static call_place place_of(const char* name, const void* caller, const void* ours) {
  enum { kPlaces = 32 };
  static call_place known[kPlaces];
  static int count;
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = __atomic_load_n(&count, __ATOMIC_ACQUIRE); i-- > 0;)
    if (known[i].caller == caller) return known[i];
  const call_place place = {caller, find_original(name, caller, ours),
                            find_original(NAME_OF(ALL_REDUCE), caller, (const void*)(uintptr_t)ALL_REDUCE)};
  pthread_mutex_lock(&mutex);
  if (count < kPlaces) {
    known[count] = place;
    __atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&mutex);
  return place;
}

/* std::runtime_error, which gloo's own exceptions are. Returns where the process has no such thing. */
static void throw_error(const char* text) {
  void* runtime = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (!runtime) return;
  ddl_function allocate = (ddl_function)(uintptr_t)ddl_dlsym(runtime, "__cxa_allocate_exception");
  ddl_function construct = (ddl_function)(uintptr_t)ddl_dlsym(runtime, "_ZNSt13runtime_errorC1EPKc");
  ddl_function destroy = (ddl_function)(uintptr_t)ddl_dlsym(runtime, "_ZNSt13runtime_errorD1Ev");
  ddl_function throw_it = (ddl_function)(uintptr_t)ddl_dlsym(runtime, "__cxa_throw");
  void* type = ddl_dlsym(runtime, "_ZTISt13runtime_error");
  if (!allocate || !construct || !destroy || !throw_it || !type) return;
  void* error = ((void* (*)(unsigned long))allocate)(2 * sizeof(void*)); /* a vtable and a string */
  ((void (*)(void*, const char*))construct)(error, text);
  ((void (*)(void*, void*, ddl_function))throw_it)(error, type, destroy);
}

/* The buffers hold nothing of use any more: the call cannot be left to gloo. */
static void raise_error(const char* text) {
  throw_error(text);
  fprintf(stderr, "%s\n", text);
  abort();
}

static void run(ddl_gloo_function function, const char* name, const void* options, const void* caller,
                const void* ours) {
  const call_place place = place_of(name, caller, ours);
  pthread_once(&front_once, load_front);
  if (__atomic_load_n(&front_is_up, __ATOMIC_ACQUIRE)) {
    char error[DDL_GLOO_ERROR_BYTES];
    switch (front.run(function, options, place.original, place.all_reduce, error)) {
      case DDL_GLOO_DONE:
        return;
      case DDL_GLOO_RAISE:
        raise_error(error);
        return;
      case DDL_GLOO_ORIGINAL:
        break;
    }
  }
  place.original(options);
}

#define HOOK(function, symbol)                                                                            \
  DDL_EXPORT void symbol(const void* options);                                                            \
  void symbol(const void* options) {                                                                      \
    run(function, NAME_OF(symbol), options, __builtin_return_address(0), (const void*)(uintptr_t)symbol); \
  }

HOOK(DDL_GLOO_ALL_REDUCE, ALL_REDUCE)
HOOK(DDL_GLOO_BROADCAST, _ZN4gloo9broadcastERNS_16BroadcastOptionsE)
HOOK(DDL_GLOO_REDUCE, _ZN4gloo6reduceERNS_13ReduceOptionsE)
HOOK(DDL_GLOO_ALL_GATHER, _ZN4gloo9allgatherERNS_16AllgatherOptionsE)
HOOK(DDL_GLOO_BARRIER, _ZN4gloo7barrierERNS_14BarrierOptionsE)
