/* The C boundary for communicators of our own whose calls are ordered on streams, that is for programs that
 * use NCCL: a member of ddl_engine_api. The engine side knows no NCCL, the front translates.
 *
 * Order of use: make_id in one process, whose bytes the program hands around; set_up in every rank; then
 * share, where the communicator is the original's after all, and leave, or open, and calls, and destroy.
 * Functions that can fail return a ddl_stream_result and fill *problem, which nobody has said yet. Thread
 * safety: all, but each ddl_setup has one owner, and nothing is used after its destroy.
 */
#ifndef DDL_STREAM_API_H
#define DDL_STREAM_API_H

#include <stdint.h>

#include "core/api/call_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  DDL_STREAM_ID_BYTES = 128,
  DDL_STREAM_SCALAR_BYTES = 8,
  DDL_HIERARCHY_DIMENSIONS = 8, /* at most; a grid of more is left to the original */
  DDL_HIERARCHY_ROUTES = 3
};

typedef struct ddl_setup ddl_setup;
typedef struct ddl_stream_comm ddl_stream_comm;
typedef struct ddl_lease ddl_lease;

typedef enum ddl_stream_result {
  DDL_STREAM_OK,
  DDL_STREAM_CUDA,         /* the CUDA driver refused something */
  DDL_STREAM_SYSTEM,       /* the communicator could not be set up */
  DDL_STREAM_INTERNAL,     /* an error of ours */
  DDL_STREAM_BAD_ARGUMENT, /* nothing was begun */
  DDL_STREAM_BAD_USAGE,    /* likewise */
  DDL_STREAM_PEER          /* another rank, or the connection to it */
} ddl_stream_result;

typedef enum ddl_stream_scale {
  DDL_STREAM_UNSCALED,
  DDL_STREAM_TIMES_SCALAR, /* every input, before the reduction */
  DDL_STREAM_AVERAGE       /* the sum by the number of ranks, integers toward zero */
} ddl_stream_scale;

/* What one rank asks for when a communicator is set up. */
typedef struct ddl_setup_request {
  const void* id; /* DDL_STREAM_ID_BYTES */
  int32_t rank, size;
  int32_t has_original; /* this process has an NCCL of its own */
  int32_t can_split;    /* whose communicator will be blocking, and can be split */
  int32_t by_sockets;   /* it has nothing better between hosts: rails of ours are worth a try */
  int32_t host;  /* of a split: ddl_setup_outcome.host of this rank in what it is split off from; else -1 */
  void* context; /* the CUDA context of this rank's device */
} ddl_setup_request;

/* The smaller communicators beside one of the original's, for plans: this rank's group in each dimension, see
 * ddl::HierarchyDimension. */
typedef struct ddl_hierarchy {
  int32_t dimensions; /* 0: none, its calls are left to the original */
  struct {
    int32_t extent, first, place;
  } dimension[DDL_HIERARCHY_DIMENSIONS];
  uint64_t segment_bytes; /* see ddl::HierarchyCut::with_segment */
  int32_t routes;
  int32_t route[DDL_HIERARCHY_ROUTES]; /* ddl::HierarchyRoute; several: the one that proves fastest */
} ddl_hierarchy;

/* What all ranks conclude alike. */
typedef struct ddl_setup_outcome {
  int32_t is_ours; /* call open, else share */
  int32_t host;    /* of this rank; -1 where nobody asked */
  /* Those of the original's that are split off from it may have plans: their ranks are to set up as well,
   * see part_of. */
  int32_t splits_may_have_plans;
  ddl_hierarchy hierarchy;
} ddl_setup_outcome;

typedef struct ddl_stream_call {
  ddl_kind kind;
  const void* in; /* device memory; see ddl::Call for blocks and for what may overlap */
  void* out;
  uint64_t count; /* elements of one block */
  ddl_type type;
  ddl_op op;
  ddl_stream_scale scale;
  unsigned char scalar[DDL_STREAM_SCALAR_BYTES]; /* of the calls' own type */
  int32_t root;                                  /* or the other rank of two */
  void* stream;
  const char* name; /* for people, a literal */
} ddl_stream_call;

typedef enum ddl_stream_where {
  DDL_STREAM_NOWHERE,
  DDL_STREAM_ON_HOST,
  DDL_STREAM_ON_DEVICE
} ddl_stream_where;

/* What a call has become. */
typedef struct ddl_stream_became {
  ddl_stream_where where; /* it is done; nowhere: there was nothing to do */
  uint32_t batch;         /* 0: it goes by itself; else one number for those that became one operation */
  int32_t wire;           /* ddl::WireType of that between hosts */
} ddl_stream_became;

typedef struct ddl_stream_api {
  /* Whether this process can have communicators of ours: a CUDA driver with a device, and nobody said no. */
  int (*usable)(void);
  /* This thread's current context, else the one of the first device; of a device by ordinal; and the way
   * back: makes one current. NULL, 0: the driver refused. */
  void* (*current_context)(void);
  void* (*context_of_device)(int32_t ordinal);
  int (*use_context)(void* context);
  int32_t (*device_of)(void* context);
  /* Device memory of the current context. */
  ddl_stream_result (*allocate)(void** address, uint64_t bytes, ddl_problem* problem);
  ddl_stream_result (*release)(void* address, ddl_problem* problem);

  ddl_stream_result (*make_id)(void* id, ddl_problem* problem);
  int (*is_id)(const void* id);
  /* Waits until all ranks have come. */
  ddl_stream_result (*set_up)(const ddl_setup_request* request, ddl_setup** setup, ddl_setup_outcome* outcome,
                              ddl_problem* problem);
  /* Rank 0's id of the original comes to all. */
  ddl_stream_result (*share)(ddl_setup* setup, void* original_id, ddl_problem* problem);
  /* Where there is a hierarchy, all-gathers of all ranks: each starts with as many bytes, which does not
   * wait; then each has everybody's, by rank, in `all`. *done: 0 when some have not started yet, unless it is
   * to wait. */
  ddl_stream_result (*start_all_gather)(ddl_setup* setup, const void* bytes, uint64_t size,
                                        ddl_problem* problem);
  ddl_stream_result (*test_all_gather)(ddl_setup* setup, int32_t wait, void* all, uint64_t size_of_each,
                                       int32_t* done, ddl_problem* problem);
  /* Ends the setup of an original's communicator. */
  void (*leave)(ddl_setup* setup);
  /* Where the ranks with that color meet after the number-th split of the communicator whose ranks met at
   * that id; nobody has to be told. They find each other there as long as somebody has a lease of the place
   * for the one that they are split off from: its rank 0, from before its own setup ends. */
  void (*part_of)(const void* id, uint64_t number, int32_t color, void* part);
  ddl_stream_result (*lease)(const void* id, ddl_lease** made, ddl_problem* problem);
  void (*end_lease)(ddl_lease* lease);
  /* A communicator of this rank's group in the last dimension of a hierarchy, all on hosts of their own. They
   * have its id from one of them, by a round; place and extent are theirs there. Its lines name `who`. Waits
   * for them. */
  ddl_stream_result (*open_rails)(const void* id, int32_t place, int32_t extent, void* context,
                                  const char* who, ddl_stream_comm** comm, ddl_problem* problem);
  /* Ends the setup: this rank's end of the communicator. */
  ddl_stream_result (*open)(ddl_setup* setup, ddl_stream_comm** comm, ddl_problem* problem);

  /* Those who give the same color make a communicator, in the order of their keys; *created is NULL for who
   * gives a negative one. All ranks wait for each other. */
  ddl_stream_result (*split)(ddl_stream_comm* parent, int32_t color, int32_t key, ddl_stream_comm** created,
                             ddl_problem* problem);
  void (*place)(ddl_stream_comm* comm, int32_t* rank, int32_t* size);

  /* Enqueues a call on its stream and returns. `became`: null, or a place, written where all is well. */
  ddl_stream_result (*submit)(ddl_stream_comm* comm, const ddl_stream_call* call, ddl_stream_became* became,
                              ddl_problem* problem);
  /* All-reduces of one group likewise, where fuses() says that some of them may become one operation; nothing
   * is begun where one is wrong. `became`: null, or a place for each. */
  int (*fuses)(ddl_stream_comm* comm);
  ddl_stream_result (*submit_together)(ddl_stream_comm* comm, const ddl_stream_call* calls, uint64_t count,
                                       ddl_stream_became* became, ddl_problem* problem);
  /* What went wrong since, DDL_STREAM_OK when all is well; it has been said. */
  ddl_stream_result (*state)(ddl_stream_comm* comm, ddl_problem* problem);
  /* Lets streams go on without results; the other ranks hear that this one is gone. */
  void (*abort)(ddl_stream_comm* comm);
  /* Waits for the calls under way. */
  void (*destroy)(ddl_stream_comm* comm);
} ddl_stream_api;

#ifdef __cplusplus
}
#endif
#endif
