/* The C boundary for communicators of our own ("native"), that is for programs that use NCCL: a member of
 * ddl_engine_api. The engine side knows no NCCL, the front translates.
 *
 * Order of use: make_id in one process, whose bytes the program hands around; meet in every rank; then share,
 * where the communicator is the original's after all, and leave, or open, and calls, and destroy. Functions
 * that can fail return a ddl_native_result and fill *problem, which nobody has said yet. Thread safety: all,
 * but each ddl_meeting has one owner, and nothing is used after its destroy.
 */
#ifndef DDL_NATIVE_API_H
#define DDL_NATIVE_API_H

#include <stdint.h>

#include "core/ddl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  DDL_NATIVE_ID_BYTES = 128,
  DDL_NATIVE_TEXT_BYTES = 512,
  DDL_NATIVE_SCALAR_BYTES = 8,
  DDL_COMPANION_DIMENSIONS = 8, /* at most; a grid of more is left to the original */
  DDL_COMPANION_WAYS = 3
};

typedef struct ddl_meeting ddl_meeting;
typedef struct ddl_native ddl_native;
typedef struct ddl_keeper ddl_keeper;
typedef struct ddl_problem {
  char text[DDL_NATIVE_TEXT_BYTES];
} ddl_problem;

typedef enum ddl_native_result {
  DDL_NATIVE_OK,
  DDL_NATIVE_CUDA,         /* the CUDA driver refused something */
  DDL_NATIVE_SYSTEM,       /* the communicator could not be set up */
  DDL_NATIVE_INTERNAL,     /* an error of ours */
  DDL_NATIVE_BAD_ARGUMENT, /* nothing was begun */
  DDL_NATIVE_BAD_USAGE,    /* likewise */
  DDL_NATIVE_PEER          /* another rank, or the connection to it */
} ddl_native_result;

typedef enum ddl_native_scale {
  DDL_NATIVE_UNSCALED,
  DDL_NATIVE_TIMES_SCALAR, /* every input, before the reduction */
  DDL_NATIVE_AVERAGE       /* the sum by the number of ranks, integers toward zero */
} ddl_native_scale;

/* One rank's place at a meeting. */
typedef struct ddl_seat {
  const void* id; /* DDL_NATIVE_ID_BYTES */
  int32_t rank, size;
  int32_t has_original; /* this process has an NCCL of its own */
  int32_t can_split;    /* whose communicator will be blocking, and can be split */
  int32_t by_sockets;   /* it has nothing better between hosts: rails of ours are worth a try */
  int32_t host;         /* of a split: ddl_met.host of this rank in what it is split off from; else -1 */
  void* context;        /* the CUDA context of this rank's device */
} ddl_seat;

/* The smaller communicators beside one of the original's, for plans: this rank's group in each dimension, see
 * ddl::CompanionDimension. */
typedef struct ddl_companion {
  int32_t dimensions; /* 0: none, its calls are left to the original */
  struct {
    int32_t extent, first, place;
  } dimension[DDL_COMPANION_DIMENSIONS];
  uint64_t segment_bytes; /* see ddl::CompanionCut::with_segment */
  int32_t ways;
  int32_t way[DDL_COMPANION_WAYS]; /* ddl::CompanionWay; several: the one that proves fastest */
} ddl_companion;

/* What all ranks of a meeting conclude alike. */
typedef struct ddl_met {
  int32_t is_ours; /* call open, else share */
  int32_t host;    /* of this rank; -1 where nobody asked */
  /* Those of the original's that are split off from it may have companions: their ranks are to meet as well,
   * see part_of. */
  int32_t splits_meet;
  ddl_companion companion;
} ddl_met;

typedef struct ddl_native_call {
  ddl_kind kind;
  const void* in; /* device memory; see ddl::Call for blocks and for what may overlap */
  void* out;
  uint64_t count; /* elements of one block */
  ddl_type type;
  ddl_op op;
  ddl_native_scale scale;
  unsigned char scalar[DDL_NATIVE_SCALAR_BYTES]; /* of the calls' own type */
  int32_t root;                                  /* or the other rank of two */
  void* stream;
  const char* name; /* for people, a literal */
} ddl_native_call;

typedef struct ddl_native_api {
  /* Whether this process can have communicators of ours: a CUDA driver with a device, and nobody said no. */
  int (*usable)(void);
  /* This thread's current context, else the one of the first device; of a device by ordinal; and the way
   * back: makes one current. NULL, 0: the driver refused. */
  void* (*current_context)(void);
  void* (*context_of_device)(int32_t ordinal);
  int (*use_context)(void* context);
  int32_t (*device_of)(void* context);
  /* Device memory of the current context. */
  ddl_native_result (*allocate)(void** address, uint64_t bytes, ddl_problem* problem);
  ddl_native_result (*release)(void* address, ddl_problem* problem);

  ddl_native_result (*make_id)(void* id, ddl_problem* problem);
  int (*is_id)(const void* id);
  /* Waits until all ranks have come. */
  ddl_native_result (*meet)(const ddl_seat* seat, ddl_meeting** meeting, ddl_met* met, ddl_problem* problem);
  /* Rank 0's id of the original comes to all. */
  ddl_native_result (*share)(ddl_meeting* meeting, void* original_id, ddl_problem* problem);
  /* Where there is a companion, rounds of all ranks: each tells as many bytes, which does not wait; then each
   * hears everybody's, by rank, in `all`. *heard: 0 when some have not spoken yet, unless it is to wait. */
  ddl_native_result (*tell)(ddl_meeting* meeting, const void* bytes, uint64_t size, ddl_problem* problem);
  ddl_native_result (*hear)(ddl_meeting* meeting, int32_t wait, void* all, uint64_t size_of_each,
                            int32_t* heard, ddl_problem* problem);
  /* Ends the meeting of an original's communicator. */
  void (*leave)(ddl_meeting* meeting);
  /* Where the ranks with that color meet after the number-th split of the communicator whose ranks met at
   * that id; nobody has to be told. They find each other there as long as somebody keeps the place for the
   * one that they are split off from: its rank 0, from before its own meeting ends. */
  void (*part_of)(const void* id, uint64_t number, int32_t color, void* part);
  ddl_native_result (*keep)(const void* id, ddl_keeper** keeper, ddl_problem* problem);
  void (*let_go)(ddl_keeper* keeper);
  /* A communicator of this rank's group in the last dimension of a companion, all on hosts of their own. They
   * have its id from one of them, by a round; place and extent are theirs there. Its lines name `who`. Waits
   * for them. */
  ddl_native_result (*open_rails)(const void* id, int32_t place, int32_t extent, void* context,
                                  const char* who, ddl_native** native, ddl_problem* problem);
  /* Ends the meeting: this rank's end of the communicator. */
  ddl_native_result (*open)(ddl_meeting* meeting, ddl_native** native, ddl_problem* problem);

  /* Those who give the same color make a communicator, in the order of their keys; *created is NULL for who
   * gives a negative one. All ranks wait for each other. */
  ddl_native_result (*split)(ddl_native* parent, int32_t color, int32_t key, ddl_native** created,
                             ddl_problem* problem);
  void (*place)(ddl_native* native, int32_t* rank, int32_t* size);

  /* Enqueues a call on its stream and returns. */
  ddl_native_result (*submit)(ddl_native* native, const ddl_native_call* call, ddl_problem* problem);
  /* What went wrong since, DDL_NATIVE_OK when all is well; it has been said. */
  ddl_native_result (*state)(ddl_native* native, ddl_problem* problem);
  /* Lets streams go on without results; the other ranks hear that this one is gone. */
  void (*abort)(ddl_native* native);
  /* Waits for the calls under way. */
  void (*destroy)(ddl_native* native);
} ddl_native_api;

#ifdef __cplusplus
}
#endif
#endif
