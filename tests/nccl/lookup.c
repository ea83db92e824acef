/* lookup seen|unseen|late LIBNCCL COPY: what dlsym says of NCCL's functions, and of others, in a process that
 * loads two NCCLs. `seen`: those of the first are the shim's. `late`: they are not, because the process has
 * used the shim's before it loads any. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "interpose/front.h"
#include "interpose/nccl/nccl_api.h"

typedef ncclResult_t broadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
typedef ncclResult_t broadcast_in_place(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);

static int wrong;

static void check(int right, const char* what, const char* name) {
  if (right) return;
  wrong = 1;
  fprintf(stderr, "lookup: wrong: %s: %s\n", what, name);
}

static int is_in(const void* address, const char* file) {
  Dl_info info;
  return address && dladdr(address, &info) && strstr(info.dli_fname, file);
}

static const char* const names[] = {
#define DDL_NCCL_HOOK(result, name, parameters, arguments) #name,
#include "interpose/nccl/hooks.def"
#undef DDL_NCCL_HOOK
};

static void* load(const char* path) {
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!library) fprintf(stderr, "lookup: %s\n", dlerror());
  return library;
}

/* The test double has not all of NCCL's functions. */
static void all_of(void* library, const char* wanted) {
  int n = 0;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    void* found = dlsym(library, names[i]);
    const char* error = dlerror();
    check(!found == (error != NULL), error ? error : "no error", names[i]);
    check(!found || is_in(found, wanted), wanted, names[i]);
    n += found != NULL;
  }
  check(n > 30, "only few functions", wanted);
}

static void others_of(void* library) {
  check(!dlsym(library, "ncclOfTomorrow"), "found what there is not", "ncclOfTomorrow");
  const char* error = dlerror();
  check(error && strstr(error, "ncclOfTomorrow"), "no error", error ? error : "");
  check(is_in(dlsym(RTLD_DEFAULT, "getpid"), "libc.so"), "not libc's", "getpid");
  check(is_in(dlsym(RTLD_NEXT, "getpid"), "libc.so"), "not libc's", "getpid");
}

static void use_without_nccl(void) {
  ncclUniqueId id;
  void* found = dlsym(RTLD_DEFAULT, "ncclGetUniqueId");
  check(is_in(found, "libddl_shim.so"), "not the shim's", "ncclGetUniqueId");
  check(found && ((ncclResult_t(*)(ncclUniqueId*))(uintptr_t)found)(&id) != ncclSuccess, "an id from nowhere",
        "");
  found = dlsym(RTLD_DEFAULT, "ncclBroadcast");
  check(found && ((broadcast*)(uintptr_t)found)(NULL, NULL, 1, ncclFloat32, 0, NULL, NULL) != ncclSuccess,
        "a broadcast of nobody", "");
}

/* ncclBcast goes on to ncclBroadcast by name: to the same library's, that we have been asked for before there
 * was any. */
static void calls_its_own(void* library) {
  void* found = dlsym(library, "ncclBcast");
  check(((broadcast_in_place*)(uintptr_t)found)(NULL, 1, ncclFloat32, 0, NULL, NULL) == ncclInvalidArgument,
        "not the library's own answer", "ncclBcast");
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  int seen = strcmp(argv[1], "seen") == 0;
  if (strcmp(argv[1], "late") == 0) use_without_nccl();
  void *first = load(argv[2]), *second = load(argv[3]);
  if (!first || !second) return 2;
  all_of(second, argv[3]);
  all_of(first, seen ? "libddl_shim.so" : argv[2]);
  all_of(second, argv[3]);
  others_of(first);
  calls_its_own(first);
  /* The program stands before the shim, which stands before all that is loaded later: the next of this
   * program's is the shim's, unless somebody else is taken for who asks. */
  if (seen)
    check(is_in(dlsym(RTLD_NEXT, "ncclAllReduce"), "libddl_shim.so"), "not the next", "ncclAllReduce");
  return wrong;
}
