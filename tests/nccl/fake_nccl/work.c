/* What a unit of work does: collectives chunk by chunk through the shared area, messages through mailboxes.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/fake_nccl/fake.h"

size_t fake_type_bytes(ncclDataType_t type) {
  switch ((int)type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0; /* this double knows no eight-bit floats */
  }
}

#define FOLD(T)                                                                        \
  static T fold_##T(const struct call* call, struct area* area, int ranks, size_t i) { \
    T total = ((const T*)area->chunk[0])[i];                                           \
    if (call->scale != 1) total = (T)(total * call->scale);                            \
    for (int r = 1; r < ranks; ++r) {                                                  \
      T one = ((const T*)area->chunk[r])[i];                                           \
      if (call->scale != 1) one = (T)(one * call->scale);                              \
      switch ((int)call->op) {                                                         \
        case ncclProd:                                                                 \
          total = (T)(total * one);                                                    \
          break;                                                                       \
        case ncclMax:                                                                  \
          total = one > total ? one : total;                                           \
          break;                                                                       \
        case ncclMin:                                                                  \
          total = one < total ? one : total;                                           \
          break;                                                                       \
        default:                                                                       \
          total = (T)(total + one);                                                    \
      }                                                                                \
    }                                                                                  \
    return call->op == ncclAvg ? (T)(total / (T)ranks) : total;                        \
  }
typedef signed char int8;
typedef unsigned char uint8;
typedef unsigned int uint32;
typedef long long int64;
typedef unsigned long long uint64;
FOLD(int8)
FOLD(uint8)
FOLD(int)
FOLD(uint32)
FOLD(int64)
FOLD(uint64)
FOLD(float)
FOLD(double)

static void fold(const struct call* call, struct area* area, int ranks, char* out, size_t n) {
  for (size_t i = 0; i < n; ++i) switch ((int)call->type) {
#define CASE(type, T)                              \
  case type:                                       \
    ((T*)out)[i] = fold_##T(call, area, ranks, i); \
    break;
      CASE(ncclInt8, int8)
      CASE(ncclUint8, uint8)
      CASE(ncclInt32, int)
      CASE(ncclUint32, uint32)
      CASE(ncclInt64, int64)
      CASE(ncclUint64, uint64)
      CASE(ncclFloat32, float)
      CASE(ncclFloat64, double)
      case ncclFloat16:
      case ncclBfloat16:
        ((unsigned short*)out)[i] = fake_fold_half(call, area, ranks, i);
        break;
    }
}

struct piece {
  size_t share, offset, bytes; /* of one rank's share: its length, and which part is moved now */
};

/* What this rank lays into its chunk in round `turn`, NULL for nothing. */
static const char* brings(const struct call* call, int me, int turn, const struct piece* piece) {
  const char* in = (const char*)call->in + piece->offset;
  switch (call->verb) {
    case REDUCE_SCATTER:
    case ALL_TO_ALL:
      return in + (size_t)turn * piece->share;
    case SCATTER:
      return me == call->peer ? in + (size_t)turn * piece->share : NULL;
    case BROADCAST:
      return me == call->peer ? in : NULL;
    default:
      return in;
  }
}

/* What this rank takes out in round `turn`. */
static void takes(const struct call* call, ncclComm_t comm, int turn, const struct piece* piece) {
  struct area* area = comm->area;
  char* out = (char*)call->out + piece->offset;
  int me = comm->rank;
  int all = call->verb == ALL_GATHER || (call->verb == GATHER && me == call->peer) ||
            (call->verb == ALL_TO_ALL && turn == me);
  int folds = call->verb == ALL_REDUCE || (call->verb == REDUCE && me == call->peer) ||
              (call->verb == REDUCE_SCATTER && turn == me);
  if (folds) fold(call, area, comm->size, out, piece->bytes / fake_type_bytes(call->type));
  if (call->verb == BROADCAST || (call->verb == SCATTER && turn == me))
    memcpy(out, area->chunk[call->peer], piece->bytes);
  for (int r = 0; all && r < comm->size; ++r)
    memcpy(out + (size_t)r * piece->share, area->chunk[r], piece->bytes);
}

static void be_slow(int ranks, size_t bytes) {
  const char* slow = getenv("FAKE_NCCL_SLOW");
  if (bytes < 4096) return;
  for (char* end = (char*)slow; end && *end; end += *end == ',')
    if (strtol(end, &end, 10) == ranks) usleep(25000);
}

static ncclResult_t collective(ncclComm_t comm, const struct call* call) {
  struct piece piece = {call->count * fake_type_bytes(call->type), 0, 0};
  be_slow(comm->size, piece.share);
  int turns =
      call->verb == REDUCE_SCATTER || call->verb == ALL_TO_ALL || call->verb == SCATTER ? comm->size : 1;
  for (; piece.offset < piece.share; piece.offset += piece.bytes) {
    piece.bytes = piece.share - piece.offset < kChunk ? piece.share - piece.offset : kChunk;
    for (int turn = 0; turn < turns; ++turn) {
      const char* mine = brings(call, comm->rank, turn, &piece);
      if (mine) memcpy(comm->area->chunk[comm->rank], mine, piece.bytes);
      ncclResult_t result = fake_barrier(comm);
      if (result != ncclSuccess) return result;
      takes(call, comm, turn, &piece);
      result = fake_barrier(comm);
      if (result != ncclSuccess) return result;
    }
  }
  return ncclSuccess;
}

/* Moves one mailbox full, if it can. */
static size_t move_message(ncclComm_t comm, const struct call* call, size_t done, size_t bytes) {
  int sends = call->verb == SEND;
  struct mailbox* box =
      sends ? &comm->area->mail[comm->rank][call->peer] : &comm->area->mail[call->peer][comm->rank];
  unsigned n = atomic_load(&box->bytes);
  if (sends ? n != 0 : n == 0) return 0;
  if (sends) {
    n = (unsigned)(bytes - done < kMail ? bytes - done : kMail);
    memcpy(box->data, (const char*)call->in + done, n);
    atomic_store(&box->bytes, n);
  } else {
    memcpy((char*)call->out + done, box->data, n);
    atomic_store(&box->bytes, 0);
  }
  return n;
}

/* All messages of a unit at once; those between the same two ranks in their order. */
static ncclResult_t messages(ncclComm_t comm, const struct call* calls, int n) {
  size_t done[1024] = {0};
  unsigned waited = 0;
  if (n > 1024) return fake_fail(comm, ncclInvalidUsage, "too many calls in a group for this test double");
  for (int left = 1; left;) {
    size_t moved = 0;
    int blocked[2][kMostRanks] = {{0}};
    left = 0;
    for (int i = 0; i < n; ++i) {
      const struct call* call = calls + i;
      size_t bytes = call->count * fake_type_bytes(call->type);
      if ((call->verb != SEND && call->verb != RECV) || done[i] == bytes) continue;
      left = 1;
      if (blocked[call->verb == SEND][call->peer]) continue;
      size_t more = move_message(comm, call, done[i], bytes);
      done[i] += more;
      moved += more;
      blocked[call->verb == SEND][call->peer] = 1;
    }
    if (moved) waited = 0;
    if (left && !moved) {
      ncclResult_t result = fake_wait(comm, &waited);
      if (result != ncclSuccess) return result;
    }
  }
  return ncclSuccess;
}

ncclResult_t fake_execute(ncclComm_t comm, const struct call* calls, int n) {
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < n && result == ncclSuccess; ++i)
    if (calls[i].verb != SEND && calls[i].verb != RECV) result = collective(comm, calls + i);
  return result == ncclSuccess ? messages(comm, calls, n) : result;
}
