/* Between the shim and a front: a table of function pointers each way. The shim knows symbols, the front
 * knows the work. Arguments travel as pointer-sized words, so that the shim serves any MPI library's handles.
 */
#ifndef DDL_INTERPOSE_FRONT_H
#define DDL_INTERPOSE_FRONT_H

#include <stdint.h>

typedef uintptr_t ddl_word;
typedef void (*ddl_function)(void); /* cast to the real type at the call */

enum { DDL_FRONT_VERSION = 1 };

#define DDL_HOOK(name, arguments) ddl_function name;
typedef struct ddl_mpi_table {
#include "interpose/mpi_hooks.def"
} ddl_mpi_table;
#undef DDL_HOOK

/* The one exported symbol of libddl_mpi.so. `next`: the functions the program would have called without us.
 * Fills `front`; returns 1, or 0 when it will not serve (and has said why, if anybody should know). */
typedef int (*ddl_mpi_front_function)(uint32_t version, const ddl_mpi_table* next, ddl_mpi_table* front);

#endif
