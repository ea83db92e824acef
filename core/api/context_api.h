/* The C boundary for contexts: groups of ranks that have found each other by means of a library's own (gloo's
 * contexts), each of which becomes a job by itself. A member of ddl_engine_api. The engine side knows no
 * gloo.
 *
 * Order of use: create in every rank, hand rank 0's id around, join in every rank, then calls from any
 * threads, then destroy. Functions that fail fill *problem, which nobody has said yet.
 */
#ifndef DDL_CONTEXT_API_H
#define DDL_CONTEXT_API_H

#include <stdint.h>

#include "core/api/call_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DDL_CONTEXT_ID_BYTES = 128 };

typedef struct ddl_context ddl_context;

typedef struct ddl_context_call {
  ddl_collective_call call;
  uint64_t key;        /* it meets those of the other ranks that bring the same, see SessionCommunicator */
  uint64_t timeout_ms; /* 0: none */
} ddl_context_call;

typedef struct ddl_context_api {
  /* Rank 0 opens the place where the others find it, and fills `id` (DDL_CONTEXT_ID_BYTES). NULL: it cannot.
   */
  ddl_context* (*create)(int32_t rank, int32_t size, void* id, ddl_problem* problem);
  /* Waits for all ranks. 1: all use the engine; 0: this one does not. */
  int (*join)(ddl_context* context, const void* id, ddl_problem* problem);
  /* Whether measurements may choose between it and the library that it is for: the same on all ranks. */
  int (*may_measure)(ddl_context* context);
  /* A call, from beginning to end. 1: done; 0: see failure(); then no call works any more, and the
   * engine has let go of the buffers. */
  int (*run)(ddl_context* context, const ddl_context_call* call);
  const char* (*failure)(ddl_context* context);
  /* As if a call had failed for that reason: the buffers of calls hold nothing of use. */
  void (*fail)(ddl_context* context, const char* why);
  /* See ddl_engine_api. Of one that has joined. */
  const char* (*report_part)(ddl_context* context);
  void (*write_report)(ddl_context* context, uint64_t parts, const char* const* part);
  /* The others, where they still make calls, hear that this rank is gone. */
  void (*destroy)(ddl_context* context);
} ddl_context_api;

#ifdef __cplusplus
}
#endif

#endif
