/* What cannot be served is named, when it begins: in one line each, by rank 0, with the way out.
 *
 * It is seen by what such a library does before its first byte travels: NCCL that is linked statically looks
 * for its plugins by dlopen; TensorFlow's own collectives are switched on by a function that its Python
 * module calls; LightGBM's and XGBoost's sockets are opened by one that is looked up in their handles
 * (ctypes). That one of these libraries is there says nothing: Horovod's TensorFlow is served, and a model
 * may be trained by each rank alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/shim.h"

static void tell_once(int* told, const char* who, const char* what) {
  const char* enable = getenv("DDL_ENABLE");
  if (__atomic_exchange_n(told, 1, __ATOMIC_RELAXED) || (enable && strcmp(enable, "0") == 0)) return;
  if (ddl_speaks_for_the_job()) fprintf(stderr, "ddl: warning: %s %s\n", who, what);
}

static void tell_of_tensorflow(void) {
  static int told;
  tell_once(&told, "TensorFlow's own collectives (MultiWorkerMirroredStrategy)",
            "go over gRPC or an NCCL of its own (they cannot be intercepted, they run without the engine); "
            "use Horovod over MPI");
}

static void tell_of_lightgbm(void) {
  static int told;
  tell_once(
      &told, "LightGBM's machines",
      "talk over sockets of their own (they cannot be intercepted, they run as without ddlrun); there is no "
      "other way for them yet");
}

static void tell_of_xgboost(void) {
  static int told;
  tell_once(
      &told, "XGBoost's workers",
      "talk over sockets of their own (they cannot be intercepted, they run as without ddlrun); train on "
      "GPUs, where they use NCCL");
}

void ddl_notice_lookup(const char* name) {
  if (strcmp(name, "LGBM_NetworkInit") == 0) tell_of_lightgbm();
  if (strcmp(name, "XGCommunicatorInit") == 0 || strcmp(name, "RabitInit") == 0) tell_of_xgboost();
  if (strcmp(name, "TFE_EnableCollectiveOps") == 0) tell_of_tensorflow();
}

/* Whether this address is in a file whose NCCL others can call, and so we too. */
static int is_nccl_for_all(const Dl_info* caller) {
  Dl_info found;
  void* file = dlopen(caller->dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* function = file ? ddl_dlsym(file, "ncclAllReduce") : NULL;
  int is = function && dladdr(function, &found) && found.dli_fbase == caller->dli_fbase;
  if (file) dlclose(file);
  dlerror(); /* what was left there is not the program's */
  return is;
}

/* libnccl-net.so, libnccl-tuner.so, ... */
void ddl_notice_open(const char* file, const void* caller) {
  static int told;
  Dl_info info;
  const char* slash = strrchr(file, '/');
  if (strncmp(slash ? slash + 1 : file, "libnccl-", 8) != 0 || !dladdr(caller, &info) ||
      is_nccl_for_all(&info))
    return;
  tell_once(
      &told, info.dli_fname,
      "contains NCCL (the calls of a statically linked NCCL cannot be intercepted, they run without the "
      "engine); use a build that loads libnccl.so.2, or Horovod over MPI");
}

typedef int enable_function(ddl_word context, ddl_word definition, ddl_word bytes, ddl_word status);
DDL_EXPORT enable_function TFE_EnableCollectiveOps;

/* Called from TensorFlow's Python module, which is loaded with RTLD_LOCAL. */
int TFE_EnableCollectiveOps(ddl_word context, ddl_word definition, ddl_word bytes, ddl_word status) {
  const char* name = "TFE_EnableCollectiveOps";
  Dl_info caller;
  void* library =
      dladdr(__builtin_return_address(0), &caller) ? dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  void* original = library ? ddl_dlsym(library, name) : NULL;
  if (library) dlclose(library);
  if (!original || original == (void*)(uintptr_t)TFE_EnableCollectiveOps)
    original = ddl_dlsym(RTLD_NEXT, name);
  if (!original) ddl_no_such_function(name, "TensorFlow");
  tell_of_tensorflow();
  return ((enable_function*)(uintptr_t)original)(context, definition, bytes, status);
}
