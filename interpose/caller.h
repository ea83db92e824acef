/* Whose call a PMPI function gets. */
#ifndef DDL_INTERPOSE_CALLER_H
#define DDL_INTERPOSE_CALLER_H

/* Whether the code at `return_address` is the program's (or a tool's, or of Open MPI's own bindings for
 * Fortran and C++), and not the MPI library, a plugin of it, or one of our libraries. About 25 ns, no lock,
 * no memory; from any thread. */
__attribute__((visibility("hidden"))) int ddl_is_users_call(const void* return_address);

#endif
