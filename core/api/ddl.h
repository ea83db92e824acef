/* ddl.h: collectives between the ranks of a job, for programs that use neither MPI nor NCCL.
 *
 *   ddl_init → calls on the group of all ranks, and on groups of some → ddl_finalize
 *
 * A group is a number of ranks that call together: all of them make the same collective calls on it in the
 * same order, with the same kind, count, type, operation and root. Sends and receives concern two ranks only.
 *
 * Functions that can fail return DDL_SUCCESS or an error; ddl_error_message() then says in one line, for the
 * calling thread, what was wrong and what to do. Nothing aborts, and errors are not printed. What the engine
 * has to say about the job goes to stderr: unknown DDL_* variables, a lost rail, a call that takes longer
 * than DDL_STALL_WARN seconds, and what DDL_VERBOSE asks for.
 *
 * Buffers consist of blocks of `count` elements; with P ranks in the group:
 *
 *                     in         out        in place where
 *   all-reduce        1          1          in == out
 *   broadcast         1 (root)   1          in == out
 *   reduce            1          1 (root)   in == out
 *   all-gather        1          P          in == out + own block
 *   reduce-scatter    P          1          out == in + own block
 *   gather            1          P (root)   in == out + own block
 *   scatter           P (root)   1          out == in + own block
 *   all-to-all        P          P          never
 *   send              1          0
 *   receive           0          1
 *
 * A buffer without blocks on a rank may be NULL there; `in` and `out` must not overlap otherwise. The root of
 * a broadcast gets its block in `out`, too. Buffers are in host memory, aligned to their type; those of an
 * all-reduce may be in CUDA device memory. A count is at most 2^46 divided by the number of ranks.
 *
 * Numbers: all ranks get the same bits. The order in which floats are added, and with it the last bits, may
 * change from run to run, unless DDL_DETERMINISTIC=1 is set. The 16-bit floats are added in float32 and
 * rounded whenever a partial sum goes on to another rank. Integers wrap. Logical operations give 0 or 1. The
 * minimum and the maximum of a NaN and a number are either of them.
 *
 * Thread safety: all functions, but one call at a time on one group, and none beside ddl_finalize. Starting,
 * waiting for and testing a request of the group are such calls. ddl_rank, ddl_size and the functions about
 * errors and memory may be called at any time. A handle that was freed must not be used; those of a job that
 * is finalized may, and give DDL_ERROR_STATE.
 */
#ifndef DDL_H
#define DDL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDL_API __attribute__((visibility("default")))

/* Of this header; ddl_version() tells that of the library. */
#define DDL_VERSION_MAJOR 0
#define DDL_VERSION_MINOR 1
#define DDL_VERSION_PATCH 0

/* The numbers of all enumerators are part of the ABI: new ones come last. */
typedef enum ddl_status {
  DDL_SUCCESS = 0,
  /* A null pointer, an unknown type, a rank that is not there. Nothing was begun, the job goes on. */
  DDL_ERROR_ARGUMENT = 1,
  /* The job is finalized, or that of a process which has forked this one. */
  DDL_ERROR_STATE = 2,
  /* The job cannot be joined: no or contradicting variables, a port in use, ranks missing. */
  DDL_ERROR_LAUNCH = 3,
  /* The job has failed, for all its ranks and for good: a peer is gone, ranks do not make the same call, or
   * one of them has no memory left for it. All calls that exchange anything fail from now on, and buffers of
   * calls that were under way hold nothing of use. */
  DDL_ERROR_JOB = 4,
  /* Memory or another resource is missing. The job, where there is one, goes on. */
  DDL_ERROR_SYSTEM = 5
} ddl_status;

typedef enum ddl_type {
  DDL_INT8,
  DDL_INT16,
  DDL_INT32,
  DDL_INT64,
  DDL_UINT8,
  DDL_UINT16,
  DDL_UINT32,
  DDL_UINT64,
  DDL_FLOAT16, /* IEEE 754 binary16 */
  DDL_BFLOAT16,
  DDL_FLOAT32,
  DDL_FLOAT64
} ddl_type;

/* Logical and bitwise operations take integer types. */
typedef enum ddl_op {
  DDL_SUM,
  DDL_PROD,
  DDL_MIN,
  DDL_MAX,
  DDL_LAND,
  DDL_LOR,
  DDL_LXOR,
  DDL_BAND,
  DDL_BOR,
  DDL_BXOR
} ddl_op;

typedef enum ddl_kind {
  DDL_ALL_REDUCE,
  DDL_BROADCAST,
  DDL_REDUCE,
  DDL_ALL_GATHER,
  DDL_REDUCE_SCATTER,
  DDL_GATHER,
  DDL_SCATTER,
  DDL_ALL_TO_ALL,
  DDL_SEND,
  DDL_RECEIVE
} ddl_kind;

typedef struct ddl_group ddl_group;
typedef struct ddl_request ddl_request;

/* ---- the job ---- */

/* Begin with DDL_INIT_OPTIONS: `size` tells which fields the program knows. */
typedef struct ddl_init_options {
  size_t size;
  int32_t rank;        /* of this process; -1: as the launcher says */
  int32_t ranks;       /* of the job; -1: as the launcher says */
  const char* address; /* of the host of rank 0, a name or a number; NULL: as the launcher says */
  uint16_t port;       /* that rank 0 listens on; 0: DDL_PORT, else MASTER_PORT + 1, else 29501 */
  double timeout_s;    /* for the other ranks, in ddl_init and in ddl_finalize; 0: DDL_TIMEOUT */
} ddl_init_options;

#ifdef __cplusplus
#define DDL_INIT_OPTIONS \
  ddl_init_options { sizeof(ddl_init_options), -1, -1, nullptr, 0, 0 }
#else
#define DDL_INIT_OPTIONS ((ddl_init_options){sizeof(ddl_init_options), -1, -1, NULL, 0, 0})
#endif

/* Joins the job and waits for its other ranks. `options` may be NULL. `*world` becomes the group of all
 * ranks; it is NULL after an error.
 *
 * Who the ranks are: if the options name neither rank, ranks nor address, PMIx says it under ddlrun, mpirun
 * and srun, and `port` is not used. Else, and where there is no PMIx, the variables RANK, WORLD_SIZE and
 * MASTER_ADDR (as torchrun sets them) say what the options do not.
 *
 * Variables named DDL_* work as they do under ddlrun. DDL_WIRE_TYPE, DDL_SPARSE and DDL_LAZY_BYTES change the
 * results of a program that knows nothing of them. With DDL_ENABLE=0 there is no engine, and so no job.
 *
 * Errors: DDL_ERROR_ARGUMENT (options), DDL_ERROR_LAUNCH, DDL_ERROR_SYSTEM. */
DDL_API ddl_status ddl_init(const ddl_init_options* options, ddl_group** world);

/* Waits for all ranks, writes the report where DDL_REPORT asks for one, and leaves the job. Requests of this
 * rank that are not done are dropped, which is no error. A job that has failed is left without waiting.
 *
 * Errors: DDL_ERROR_ARGUMENT (not the group of all ranks), DDL_ERROR_STATE, DDL_ERROR_JOB: the job is
 * finalized nevertheless. */
DDL_API ddl_status ddl_finalize(ddl_group* world);

/* ---- groups ---- */

/* The rank of this process in the group; -1 if it is NULL. */
DDL_API int32_t ddl_rank(const ddl_group* group);
/* How many ranks the group has; -1 if it is NULL. */
DDL_API int32_t ddl_size(const ddl_group* group);

/* A group of `n` ranks of `parent`, in this order; `members` are their ranks there, each once. Only the
 * members call, and for the same members in the same order; nothing is exchanged.
 *
 * Errors: DDL_ERROR_ARGUMENT (a rank that is not there or comes twice, this rank is no member),
 * DDL_ERROR_STATE, DDL_ERROR_SYSTEM. */
DDL_API ddl_status ddl_group_create(ddl_group* parent, const int32_t* members, int32_t n, ddl_group** group);
/* All ranks of `parent` call, and wait for each other: those of equal color form a group, ordered by key,
 * then by rank. A rank of negative color is in none and gets NULL. */
DDL_API ddl_status ddl_group_split(ddl_group* parent, int32_t color, int32_t key, ddl_group** group);
/* The group of all ranks is freed by ddl_finalize alone. DDL_ERROR_ARGUMENT, too, while a request of the
 * group is not done. NULL is ignored. */
DDL_API ddl_status ddl_group_free(ddl_group* group);

/* ---- blocking calls: `count` elements in a block ---- */

DDL_API ddl_status ddl_all_reduce(const void* in, void* out, uint64_t count, ddl_type type, ddl_op op,
                                  ddl_group* group);
DDL_API ddl_status ddl_broadcast(const void* in, void* out, uint64_t count, ddl_type type, int32_t root,
                                 ddl_group* group);
DDL_API ddl_status ddl_reduce(const void* in, void* out, uint64_t count, ddl_type type, ddl_op op,
                              int32_t root, ddl_group* group);
DDL_API ddl_status ddl_all_gather(const void* in, void* out, uint64_t count, ddl_type type, ddl_group* group);
DDL_API ddl_status ddl_reduce_scatter(const void* in, void* out, uint64_t count, ddl_type type, ddl_op op,
                                      ddl_group* group);
DDL_API ddl_status ddl_gather(const void* in, void* out, uint64_t count, ddl_type type, int32_t root,
                              ddl_group* group);
DDL_API ddl_status ddl_scatter(const void* in, void* out, uint64_t count, ddl_type type, int32_t root,
                               ddl_group* group);
DDL_API ddl_status ddl_all_to_all(const void* in, void* out, uint64_t count, ddl_type type, ddl_group* group);
/* The n-th send from rank A to rank B is received by B's n-th receive from A. No rank sends to itself. A
 * blocking send may wait for its receive. */
DDL_API ddl_status ddl_send(const void* in, uint64_t count, ddl_type type, int32_t to, ddl_group* group);
DDL_API ddl_status ddl_receive(void* out, uint64_t count, ddl_type type, int32_t from, ddl_group* group);
/* Returns when all ranks of the group have called. To start one without waiting, start an all-reduce of one
 * element. */
DDL_API ddl_status ddl_barrier(ddl_group* group);

/* ---- gradients that are sent in part ---- */

/* A gradient of which only some chunks of 1024 elements travel between hosts: those whose sum of |v| over the
 * ranks is largest, so that they are the same ones on all ranks. With `in` of this rank's call:
 *
 *   u = momentum * u + in      the velocity
 *   v = v + u                  what has not been sent yet
 *
 *   chunks that travel:        out = sum of v over the ranks, then u = v = 0
 *   all other chunks:          out = 0
 *
 * As long as everything travels (in the warm-up, where share is 1, and on one host) the velocity u goes on.
 * With a momentum, `out` is the sum of velocities: an optimizer is to apply it as it is, with no momentum of
 * its own, which would count twice. Sources: Sun et al. (2019), coarse-grained sparse communication; Lin et
 * al. (2018), momentum correction.
 *
 * Begin with DDL_GRADIENT_OPTIONS: `size` tells which fields the program knows. */
typedef struct ddl_gradient_options {
  size_t size;
  uint64_t count; /* elements, 1 to 2^40; the calls have as many */
  ddl_type type;  /* DDL_FLOAT32 or DDL_FLOAT64; the calls have the same */
  double share;   /* of the chunks that travel in the end: more than 0, at most 1; 0.1 unless set */
  /* Calls of this gradient in which all chunks travel; the share then falls to the one asked for over as many
   * more. 50 unless set. */
  uint64_t warm_up;
  double momentum; /* at least 0, less than 1 */
} ddl_gradient_options;

#ifdef __cplusplus
#define DDL_GRADIENT_OPTIONS \
  ddl_gradient_options { sizeof(ddl_gradient_options), 0, DDL_FLOAT32, 0.1, 50, 0 }
#else
#define DDL_GRADIENT_OPTIONS \
  ((ddl_gradient_options){sizeof(ddl_gradient_options), 0, DDL_FLOAT32, 0.1, 50, 0})
#endif

typedef struct ddl_gradient ddl_gradient;

/* All ranks of the group make the same gradients with the same options. Takes as much memory as the gradient,
 * twice with a momentum. An all-reduce (DDL_SUM) that names it in ddl_call.gradient is sent in part; the n-th
 * call of one gradient meets the n-th on the other ranks, in the order of all calls of the group. Nothing is
 * exchanged. A gradient outlives its group, but no call can name it then.
 *
 * Errors: DDL_ERROR_ARGUMENT, DDL_ERROR_STATE, DDL_ERROR_SYSTEM. */
DDL_API ddl_status ddl_gradient_create(ddl_group* group, const ddl_gradient_options* options,
                                       ddl_gradient** gradient);
/* No request of it may be under way. NULL is ignored. What was not sent is lost. */
DDL_API ddl_status ddl_gradient_free(ddl_gradient* gradient);

/* ---- nonblocking calls ---- */

/* Any call as a value. Begin with DDL_CALL: `size` tells which fields the program knows. */
typedef struct ddl_call {
  size_t size;
  ddl_kind kind;
  const void* in;
  void* out;
  uint64_t count;
  ddl_type type;
  ddl_op op;              /* where the kind computes */
  int32_t root;           /* where the kind has one; the other rank of a send or receive */
  ddl_gradient* gradient; /* of an all-reduce that is sent in part; NULL: all of it travels */
} ddl_call;

#ifdef __cplusplus
#define DDL_CALL \
  ddl_call { sizeof(ddl_call), DDL_ALL_REDUCE, nullptr, nullptr, 0, DDL_FLOAT32, DDL_SUM, 0, nullptr }
#else
#define DDL_CALL ((ddl_call){sizeof(ddl_call), DDL_ALL_REDUCE, NULL, NULL, 0, DDL_FLOAT32, DDL_SUM, 0, NULL})
#endif

/* The same as the function of that kind. */
DDL_API ddl_status ddl_run(const ddl_call* call, ddl_group* group);
/* Starts the call and returns. A collective moves on while the program computes; a send or a receive only
 * while this rank waits or tests. Its buffers are the engine's until the request is done.
 *
 * `*request` is to be given to ddl_wait or ddl_test until it is NULL. It is NULL at once if the call was done
 * at once, and after an error. */
DDL_API ddl_status ddl_start(const ddl_call* call, ddl_group* group, ddl_request** request);
/* Waits until it is done, frees it and makes `*request` NULL, also when the call has failed. One that is NULL
 * already is done. */
DDL_API ddl_status ddl_wait(ddl_request** request);
/* The same without waiting: `*done` is 0 or 1. */
DDL_API ddl_status ddl_test(ddl_request** request, int* done);
/* Waits for all of them; the first error is returned. */
DDL_API ddl_status ddl_wait_all(size_t n, ddl_request** requests);

/* ---- memory ---- */

/* Memory for buffers: aligned to pages, in huge ones where the system has them, touched by this thread so
 * that it is on its NUMA node and no call has to fault it in. Zeros. `*memory` is NULL for 0 bytes, and after
 * an error. */
DDL_API ddl_status ddl_allocate(size_t bytes, void** memory);
/* Memory of ddl_allocate, with the same `bytes`: anything else is DDL_ERROR_ARGUMENT. NULL is ignored. */
DDL_API ddl_status ddl_free(void* memory, size_t bytes);

/* ---- errors ---- */

/* What was wrong with the last call of this thread that failed, in one line; "" if none has. The text stays
 * until another call of this thread fails. */
DDL_API const char* ddl_error_message(void);
/* The status in words: "invalid argument". Never NULL. */
DDL_API const char* ddl_error_string(ddl_status status);
/* Of the library, such as "0.1.0". */
DDL_API const char* ddl_version(void);

#ifdef __cplusplus
}
#endif
#endif
