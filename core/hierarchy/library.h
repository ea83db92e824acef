/* What a hierarchical communicator is given: the functions of the library whose communicators it divides and
 * calls (NCCL, as far as the front knows it), and of the engine's own communicators over rails.
 *
 * Communicators are opaque; element types, operations and results are the library's own numbers, which travel
 * through. A result of 0 is success. Buffers are device memory, streams those of the CUDA driver. */
#ifndef DDL_HIERARCHY_LIBRARY_H
#define DDL_HIERARCHY_LIBRARY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DDL_RAILS_ID_BYTES = 128, DDL_RAILS_TEXT_BYTES = 512 };

typedef struct ddl_library {
  const char* name; /* for people, as the next */
  const char* all_reduce_name;
  int in_progress;   /* says that all is well, too */
  int cuda_error;    /* what is returned for a refusal of the driver's */
  int invalid_usage; /* and for a communicator that is ended */
  /* Says one line, which the program may ask for afterwards; returns the result. */
  int (*complain)(int result, const char* text);
  const char* (*describe)(int result);
  const char* (*last_error)(void* comm);

  int (*group_start)(void);
  int (*group_end)(void);
  int (*split)(void* comm, int color, int key, void** part, const void* config);
  int (*destroy)(void* comm);
  /* What has gone wrong on it since; 0 also where that cannot be told. */
  int (*state)(void* comm);
  int (*reduce_scatter)(const void* in, void* out, size_t count, int type, int op, void* comm, void* stream);
  int (*all_reduce)(const void* in, void* out, size_t count, int type, int op, void* comm, void* stream);
  int (*all_gather)(const void* in, void* out, size_t count, int type, void* comm, void* stream);
  /* Something that ends on no rank before it has begun on all; `byte` is device memory that nobody looks at.
   */
  int (*meet)(void* byte, void* comm, void* stream);

  /* Communicators of ranks that are on hosts of their own. Those who open one have its id of
   * DDL_RAILS_ID_BYTES from one of them, and wait for each other; NULL, and why not. */
  void (*make_rails_id)(void* id);
  void* (*open_rails)(const void* id, int place, int extent, void* context, const char* who,
                      char why[DDL_RAILS_TEXT_BYTES]);
  int (*all_reduce_on_rails)(const void* in, void* out, size_t count, int type, int op, void* rails,
                             void* stream);
  int (*state_of_rails)(void* rails);
  void (*abort_rails)(void* rails); /* streams go on without results */
  void (*close_rails)(void* rails);
} ddl_library;

#ifdef __cplusplus
}
#endif
#endif
