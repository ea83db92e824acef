/* caller.c as it is where glibc cannot tell a file without its lock. */
#define DDL_WALK_LOADED_FILES
#define ddl_is_users_call ddl_is_users_call_by_walk
#include "interpose/caller.c"
