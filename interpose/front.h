/* Between the shim and its fronts: a table of function pointers each way. The shim knows symbols, a front
 * knows the work. MPI's arguments travel as pointer-sized words, so that the shim serves any MPI library's
 * handles; NCCL's have their own types (nccl/nccl_api.h). */
#ifndef DDL_INTERPOSE_FRONT_H
#define DDL_INTERPOSE_FRONT_H

#include <stdint.h>

typedef uintptr_t ddl_word;
typedef void (*ddl_function)(void); /* cast to the real type at the call */

enum { DDL_FRONT_VERSION = 10 };

#define DDL_HOOK(name, arguments, handler) ddl_function name;
typedef struct ddl_mpi_table {
#include "interpose/mpi/hooks.def"
} ddl_mpi_table;

#define DDL_NCCL_HOOK(result, name, parameters, arguments) ddl_function name;
typedef struct ddl_nccl_table {
#include "interpose/nccl/hooks.def"
} ddl_nccl_table;
#undef DDL_NCCL_HOOK

/* The one exported symbol of libddl_mpi.so. `next`: the functions the program would have called without us.
 * `published_key`: see ddl_host_library. `unwound`: to be called before an exception of the program's leaves
 * a function of `front`, and before its error handler is called by one. Fills `front`, of DDL_LATE_HOOKs when
 * they are needed: until then these slots are NULL. Returns 1, or 0 when it will not serve (and has said why,
 * if anybody should know). */
typedef const char* ddl_key_function(void);
typedef void ddl_unwound_function(void);
typedef int (*ddl_mpi_front_function)(uint32_t version, const ddl_mpi_table* next,
                                      ddl_key_function* published_key, ddl_unwound_function* unwound,
                                      ddl_mpi_table* front);

/* The same of libddl_nccl.so. Where there is no NCCL, `next` holds NULLs; a slot of `front` that stays NULL
 * is the original's. */
typedef int (*ddl_nccl_front_function)(uint32_t version, const ddl_nccl_table* next, ddl_nccl_table* front);

/* Of libddl_gloo.so. */
typedef enum ddl_gloo_function {
  DDL_GLOO_ALL_REDUCE,
  DDL_GLOO_BROADCAST,
  DDL_GLOO_REDUCE,
  DDL_GLOO_ALL_GATHER,
  DDL_GLOO_BARRIER,
  DDL_GLOO_FUNCTIONS
} ddl_gloo_function;
enum { DDL_GLOO_ERROR_BYTES = 1024 };
typedef enum ddl_gloo_outcome {
  DDL_GLOO_DONE,
  DDL_GLOO_ORIGINAL, /* it is for gloo to do, whatever comes of that */
  DDL_GLOO_RAISE     /* with the text in `error` */
} ddl_gloo_outcome;
typedef void ddl_gloo_original(const void* options);
typedef struct ddl_gloo_functions {
  /* Does a call, or tells what is to become of it. `original` is gloo's own, `all_reduce` that of the same
   * library; what they throw passes through. */
  ddl_gloo_outcome (*run)(ddl_gloo_function function, const void* options, ddl_gloo_original* original,
                          ddl_gloo_original* all_reduce, char error[DDL_GLOO_ERROR_BYTES]);
} ddl_gloo_functions;
typedef int (*ddl_gloo_front_function)(uint32_t version, ddl_gloo_functions* front);

#endif
