/* What the hooks of MPI, gloo and NCCL share inside libddl_shim.so. Nothing here is exported. */
#ifndef DDL_INTERPOSE_SHIM_H
#define DDL_INTERPOSE_SHIM_H

#include "interpose/front.h"

#define DDL_EXPORT __attribute__((visibility("default")))
#define DDL_SHIM_LOCAL __attribute__((visibility("hidden")))

/* What the program would have called: the next definition in its own search order; where the library is not
 * in that (loaded with RTLD_LOCAL, as plugins do), the one of the loaded file whose name starts with
 * `library`. NULL: there is none. */
DDL_SHIM_LOCAL ddl_function ddl_find_next(const char* name, const char* library);

/* The dynamic linker's dlsym: by its own name it is a hook of ours. And where it is, for that hook: see there
 * what such code must do without. */
typedef void* ddl_lookup_function(void* handle, const char* name);
DDL_SHIM_LOCAL void* ddl_dlsym(void* handle, const char* name);
DDL_SHIM_LOCAL ddl_lookup_function* ddl_next_lookup(void);
#define DDL_PLAIN_CODE __attribute__((no_sanitize("address", "thread", "undefined"), no_stack_protector))

/* Our hook of this name, where `found` is the very function that it would call; else NULL, and where the
 * engine is switched off. May leave an error in dlerror(). */
DDL_SHIM_LOCAL void* ddl_hook_of(const char* name, const void* found);
DDL_SHIM_LOCAL void* ddl_mpi_hook_of(const char* name, const void* found);
DDL_SHIM_LOCAL void* ddl_nccl_hook_of(const char* name, const void* found);
DDL_SHIM_LOCAL void* ddl_pmix_hook_of(const char* name, const void* found);

/* A key under which the MPI library has told all ranks something by PMIx; "": none so far. */
DDL_SHIM_LOCAL ddl_key_function ddl_published_key;

/* Begins it as names of hooks do? */
DDL_SHIM_LOCAL int ddl_may_be_hooked(const char* name);

/* Libraries opened with RTLD_DEEPBIND, by this thread or others, since this one last looked; and the look. */
DDL_SHIM_LOCAL int ddl_has_new_deep_loads(void);
DDL_SHIM_LOCAL void ddl_look_at_deep_loads(void);

/* A sibling of the shim, found beside it; NULL after a warning. */
DDL_SHIM_LOCAL void* ddl_load_sibling(const char* file);

/* Names what cannot be served (unserved.c): a function is asked for by that name, a file is opened by who is
 * at `caller`. */
DDL_SHIM_LOCAL void ddl_notice_lookup(const char* name);
DDL_SHIM_LOCAL void ddl_notice_open(const char* file, const void* caller);

/* Rank 0 speaks for the job; the other ranks of a job where only some lack the engine are named by those that
 * have it. */
DDL_SHIM_LOCAL int ddl_speaks_for_the_job(void);
DDL_SHIM_LOCAL void ddl_shim_warn(const char* why);

/* Ends the process as the loader would have done without us. */
DDL_SHIM_LOCAL _Noreturn void ddl_no_such_function(const char* name, const char* kind);

#endif
