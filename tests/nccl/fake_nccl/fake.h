/* A TEST DOUBLE of NCCL (SONAME libnccl.so.2), for machines without a GPU. It is not NCCL, shares no code
 * with it and is never installed. It keeps NCCL's contract as programs see it - communicators, groups,
 * ordering, results, the refusal of two ranks on one device - and moves host memory between threads or
 * processes of one machine.
 *
 * Streams: where a libcuda.so.1 is loaded, a unit of work is a host function on the caller's stream; else it
 * is done before the call returns. Variables of one rank's process: FAKE_NCCL_DEVICE (device ordinal; else
 * libcuda's current device; else the rank), FAKE_NCCL_VERSION (what ncclGetVersion says; else 22809),
 * FAKE_NCCL_TRACE (a file that each call of each rank adds a line to), FAKE_NCCL_SPLIT_FAILS (a rank: its
 * first two splits of each communicator fail, and not the others'), FAKE_NCCL_SLOW (numbers: collectives on
 * communicators of so many ranks take 25 ms longer, from 4 KiB on).
 *
 * As libnccl does, it calls some of its public functions by name: ncclBcast ends in ncclBroadcast, and so
 * does ncclScatter of one rank, and every new communicator begins with an ncclBroadcast of its own, in
 * threads of its own where there are such. */
#ifndef DDL_TESTS_FAKE_NCCL_FAKE_H
#define DDL_TESTS_FAKE_NCCL_FAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/nccl/nccl_subset.h"

#define FAKE_API __attribute__((visibility("default"), weak))

enum { kMostRanks = 16, kChunk = 65536, kMail = 4096, kOwnOps = 8, kFirstOwnOp = 5, kNameBytes = 64 };

struct mailbox {
  atomic_uint bytes; /* 0: empty */
  char data[kMail];
};

struct endpoint { /* what the ranks tell each other */
  int device, color, key, rank;
};

/* One communicator's shared memory: a file in /dev/shm, gone once all have it. */
struct area {
  atomic_int aborted;
  atomic_uint arrived, round; /* the barrier */
  struct endpoint endpoints[kMostRanks];
  char chunk[kMostRanks][kChunk];
  struct mailbox mail[kMostRanks][kMostRanks]; /* from, to */
};

struct ncclComm {
  unsigned magic;
  int rank, size, device;
  char name[kNameBytes]; /* of the area */
  struct area* area;
  atomic_int state; /* ncclResult_t: in progress, success or what went wrong */
  int blocking;
  int splits;
  char error[160];
  double scale[kOwnOps]; /* of the operations made by the program */
  int scale_used[kOwnOps];
  pthread_mutex_t mutex; /* units of work run one after the other, in the order of their calls */
  pthread_cond_t moved;
  unsigned next_ticket, turn;
};

struct call {
  enum {
    ALL_REDUCE,
    REDUCE,
    BROADCAST,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    SEND,
    RECV
  } verb;
  const void* in;
  void* out;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  double scale; /* of the operation, when the call was made */
  int peer;
  ncclComm_t comm;
  cudaStream_t stream;
};

/* exchange.c */
struct area* fake_area(const char* name);
void fake_area_close(struct area* area);
ncclResult_t fake_barrier(ncclComm_t comm);
/* Waits a little; not ncclSuccess when there is no sense in waiting on. */
ncclResult_t fake_wait(ncclComm_t comm, unsigned* waited);
/* The endpoints of all ranks, into `all`. */
ncclResult_t fake_exchange(ncclComm_t comm, const struct endpoint* mine, struct endpoint* all);
ncclResult_t fake_fail(ncclComm_t comm, ncclResult_t result, const char* format, ...);

/* comms.c */
int fake_valid(ncclComm_t comm);
unsigned fake_ticket(ncclComm_t comm);
void fake_begin_turn(ncclComm_t comm, unsigned ticket);
void fake_end_turn(ncclComm_t comm);

/* work.c */
ncclResult_t fake_execute(ncclComm_t comm, const struct call* calls, int n);
size_t fake_type_bytes(ncclDataType_t type);

/* half.c: element i of all ranks' chunks, computed as float and rounded once. */
unsigned short fake_fold_half(const struct call* call, const struct area* area, int ranks, size_t i);

/* trace.c: what was called on whom, a line for each call of each rank. */
void fake_trace_call(const struct call* call);
void fake_trace_split(ncclComm_t comm, const ncclConfig_t* config);

/* groups.c */
/* Runs `create(what)`, which may wait for other ranks: now; or at the end of this thread's group, all at
 * once. */
ncclResult_t fake_start(ncclResult_t (*create)(void*), void* what);
ncclResult_t fake_in_threads(int n, ncclResult_t (*work)(void*), void** what);
void* fake_libcuda(const char* function);

#endif
