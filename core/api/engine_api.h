/* The engine's C boundary: what libddl.so gives to the fronts (libddl_mpi.so, libddl_gloo.so,
 * libddl_nccl.so), by one symbol, ddl_engine(). No C++ type and no exception crosses it. Beside it libddl.so
 * exports ddl.h.
 *
 * Order of use: announce, (the program's own initialisation), join, then communicators and calls, then close.
 * Thread safety: everything after join, except close.
 */
#ifndef DDL_ENGINE_API_H
#define DDL_ENGINE_API_H

#include <stddef.h>
#include <stdint.h>

#include "core/api/call_api.h"
#include "core/api/context_api.h"
#include "core/api/ddl.h"
#include "core/api/stream_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DDL_ENGINE_VERSION = 25 };

typedef struct ddl_job ddl_job;
typedef struct ddl_comm ddl_comm;
typedef struct ddl_started ddl_started;
typedef struct ddl_kept_call ddl_kept_call;

/* What the MPI library lends the engine. */
typedef struct ddl_host_library {
  int32_t has_progress_hook; /* it can call us from its own waits */
  /* Fills `all` with `bytes` bytes of every rank of the job, in their order, and waits for them; 0: it
   * failed. Called in join. */
  int (*all_gather)(const void* mine, uint64_t bytes, void* all);
  /* A key under which it has told all ranks something by PMIx; "" where none is known. Called in join. */
  const char* (*published_key)(void);
  void (*progress)(void); /* moves it while we wait */
} ddl_host_library;

/* What became of a call. */
typedef enum ddl_outcome {
  DDL_FAILED = 0,                /* see failure() */
  DDL_DONE = 1,                  /* the result is in its buffer */
  DDL_ORIGINAL = 2,              /* left to the original library, alike on all ranks: as it was called, */
  DDL_ORIGINAL_IN_TWO_STEPS = 3, /* or as a reduce-scatter and an all-gather */
  DDL_UNDER_WAY = 4              /* next_done() will name its owner */
} ddl_outcome;

/* What a call says of how many elements there are, see ddl_collective_call. */
typedef struct ddl_counts {
  uint64_t count;
  ddl_block_layout in_blocks, out_blocks;
  uint64_t lengths;
} ddl_counts;

typedef struct ddl_engine_api {
  uint32_t version;
  /* Publishes this process's endpoint; NULL outside any job, and where this rank cannot take part, which all
   * others see alike. */
  ddl_job* (*announce)(const ddl_host_library* host);
  /* Waits for all ranks. 1: all of them use the engine; 0: none does, one has said why. */
  int (*join)(ddl_job* job);
  int (*nonblocking)(ddl_job* job); /* 1 when every rank can complete nonblocking calls */
  /* An identity for a new communicator, the same on all ranks that give the same three numbers: that of the
   * one it comes from (0: none), the number of the creation there, and one that tells several of the same
   * creation apart. */
  uint64_t (*identity)(uint64_t parent, uint64_t number, uint64_t which);
  /* One that this process has never given before. */
  uint64_t (*fresh_identity)(ddl_job* job);
  /* A communicator of `n` ranks of the job. Nobody else hears of it; its members give the same identity. */
  ddl_comm* (*comm_create)(ddl_job* job, uint64_t identity, int32_t n, const int32_t* members, int32_t me);
  /* One of the same ranks. */
  ddl_comm* (*comm_dup)(ddl_comm* comm, uint64_t identity);
  /* One of the same ranks, for the starts of one persistent request. All make these of `comm` in one order;
   * each starts its requests in an order of its own. It may outlive `comm`. */
  ddl_comm* (*comm_of_request)(ddl_comm* comm, uint64_t identity);
  /* Does now what its first small call would have to do first. */
  void (*comm_warm_up)(ddl_comm* comm);
  void (*comm_free)(ddl_comm* comm);
  int (*is_within_host)(ddl_comm* comm); /* 1: all its ranks are on one host */
  /* A blocking call, from beginning to end. When it is left to the original library, alike on all ranks:
   * *why; and where *is_measured, the caller says how long it took with original_done(). Where it was done in
   * a way that such calls keep, and `kept` is not NULL, *kept is that call, to be made again by run_kept():
   * valid until forget_kept() or comm_free(), as the lists of blocks of unequal length must be. */
  ddl_outcome (*run)(ddl_comm* comm, const ddl_collective_call* call, const char** why, int* is_measured,
                     ddl_kept_call** kept);
  /* The same call with other buffers, at the cost of its messages. DDL_ORIGINAL: nothing was done, run() is
   * to be asked, because a buffer is in device memory; else, after forget_kept(), because such calls may take
   * another way by now. */
  ddl_outcome (*run_kept)(ddl_comm* comm, ddl_kept_call* call, const void* in, void* out, uint64_t number);
  /* Makes of a kept call the one that differs from it in its counts alone; 0: that one takes another way, and
   * the kept one stays. */
  int (*recount)(ddl_comm* comm, ddl_kept_call* call, const ddl_counts* counts);
  void (*forget_kept)(ddl_comm* comm);
  void (*original_done)(ddl_comm* comm, const ddl_collective_call* call, int64_t ns);
  /* Why all further calls like that are left to the original library: a rank may make them without asking
   * run(), whatever the others do. NULL: they are not, or not yet for good. */
  const char* (*left_to_original)(ddl_comm* comm, const ddl_collective_call* call);
  /* Starts a call that moves while the program computes; `owner` is the caller's name for it. Where it is
   * under way, *started is the engine's name for it. `kept`: as of run(), for start_kept(). */
  ddl_outcome (*start)(ddl_comm* comm, const ddl_collective_call* call, void* owner, ddl_started** started,
                       const char** why, ddl_kept_call** kept);
  /* The same of a call that was started. */
  ddl_outcome (*start_kept)(ddl_comm* comm, ddl_kept_call* call, const void* in, void* out, uint64_t number,
                            void* owner, ddl_started** started);
  /* Waits for a call under way as run() does. 1: this tells of its end, and next_done() never does; 0:
   * next_done() does, or did. `owner`, which must be there still, says whose it was. */
  int (*wait)(ddl_job* job, ddl_started* started, void* owner, int* right);
  /* Moves what is under way; never long: the original library must be moved too. */
  void (*poll)(ddl_job* job);
  /* The owner of a call that is done, each once; *right: its result is. NULL: there is none. After a failure
   * all are done, and none is right. */
  void* (*next_done)(ddl_job* job, int* right);
  const char* (*failure)(ddl_job* job); /* why nothing works any more, "" when all is well */
  /* Calls that went to the original library: so many bytes and so long, all together. */
  void (*count_original)(ddl_job* job, const char* collective, const char* reason, uint64_t calls,
                         uint64_t bytes, int64_t ns);
  /* Calls without elements: they are done before the engine hears of them. */
  void (*count_empty)(ddl_job* job, const char* collective, uint64_t calls);
  int (*is_device)(const void* one, const void* other); /* 1: the host cannot read one of these */
  /* Either way; 0: the driver reports an error. */
  int (*copy_device)(void* to, const void* from, uint64_t bytes);
  int (*report_wanted)(ddl_job* job); /* after join: the same on all ranks of a job that uses the engine */
  /* This rank's part of the report; valid until the next call. */
  const char* (*report_part)(ddl_job* job);
  void (*write_report)(ddl_job* job, size_t parts, const char* const* part);
  /* Once joined: the ddl::Activity (core/trace/activity.hpp) where the front notes what its threads do; until
   * close(). */
  void* (*activity)(ddl_job* job);
  /* No calls are made any more; that the job comes to its end is watched over until close(). */
  void (*leave)(ddl_job* job);
  void (*close)(ddl_job* job);
  const ddl_stream_api* stream;   /* communicators of our own, without any ddl_job */
  const ddl_context_api* context; /* likewise */
} ddl_engine_api;

/* NULL when the version does not match. */
const ddl_engine_api* ddl_engine(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
