#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kGuard = 64, kGuardByte = 0xA5, kStaleByte = 0x5A };

long cases_done, failures;

struct group make_group(const char* name, MPI_Comm comm) {
  struct group group = {.name = name, .comm = comm, .me = -1};
  if (comm == MPI_COMM_NULL) return group;
  MPI_Group world, mine;
  int ranks[64];
  MPI_Comm_size(comm, &group.of.size);
  MPI_Comm_rank(comm, &group.me);
  for (int i = 0; i < group.of.size; ++i) ranks[i] = i;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Comm_group(comm, &mine);
  MPI_Group_translate_ranks(mine, group.of.size, ranks, world, group.of.world);
  MPI_Group_free(&world);
  MPI_Group_free(&mine);
  return group;
}

void fail(const char* format, ...) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (++failures > 20) return;
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "FAILED on rank %d: ", rank);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

static void fail_call(const struct call* call, const char* what, size_t number) {
  fail("%s: %zu of %zu %s %s on %s (%d ranks), %s, offset %zu", what, number, call->count, call->type->name,
       op_names[call->op], call->group->name, call->group->of.size,
       call->placement == IN_PLACE ? "in place" : "out of place", call->offset);
}

static char* guarded(size_t bytes, size_t offset, char** block) {
  *block = malloc(bytes + offset + 2 * kGuard);
  if (!*block) {
    fprintf(stderr, "out of memory (%zu bytes)\n", bytes);
    exit(3);
  }
  char* at = *block + kGuard + offset;
  memset(*block, kGuardByte, (size_t)(at - *block));
  memset(at + bytes, kGuardByte, kGuard);
  return at;
}

static int guards_intact(const char* at, const char* block, size_t bytes) {
  for (const char* p = block; p < at; ++p)
    if ((unsigned char)*p != kGuardByte) return 0;
  for (size_t i = 0; i < kGuard; ++i)
    if ((unsigned char)at[bytes + i] != kGuardByte) return 0;
  return 1;
}

struct call begin_call(const struct group* group, const struct type_case* type, enum op_kind op, size_t count,
                       enum placement placement, size_t offset) {
  struct call call = {.group = group,
                      .type = type,
                      .op = op,
                      .count = count,
                      .placement = placement,
                      .offset = offset,
                      .request = MPI_REQUEST_NULL};
  /* The same on all members, whatever communicators each of them was in before. */
  call.seed = mix(count, (uint64_t)op, (uint64_t)placement);
  call.recv = guarded(count * type->bytes, offset, &call.recv_block);
  if (placement == IN_PLACE) {
    type->fill(call.recv, count, op, &group->of, group->me, call.seed);
  } else {
    call.send = guarded(count * type->bytes, offset, &call.send_block);
    type->fill(call.send, count, op, &group->of, group->me, call.seed);
    memset(call.recv, kStaleByte, count * type->bytes);
  }
  return call;
}

static const void* send_argument(const struct call* call) {
  return call->placement == IN_PLACE ? MPI_IN_PLACE : call->send;
}

void start_blocking(struct call* call) {
  const int rc = MPI_Allreduce(send_argument(call), call->recv, (int)call->count, call->type->type,
                               op_handle(call->op), call->group->comm);
  if (rc != MPI_SUCCESS) fail_call(call, "MPI_Allreduce returned an error", (size_t)rc);
}

void start_nonblocking(struct call* call) {
  const int rc = MPI_Iallreduce(send_argument(call), call->recv, (int)call->count, call->type->type,
                                op_handle(call->op), call->group->comm, &call->request);
  if (rc != MPI_SUCCESS) fail_call(call, "MPI_Iallreduce returned an error", (size_t)rc);
}

static void check_same_bits(const struct call* call, size_t bytes) {
  uint64_t mine = hash_bytes(call->recv, bytes), all[64];
  MPI_Gather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, call->group->comm);
  if (call->group->me != 0) return;
  for (int i = 1; i < call->group->of.size; ++i)
    if (all[i] != all[0]) fail_call(call, "rank has other bits than rank 0 of the communicator", (size_t)i);
}

enum { kMany = 16384 };

void finish_call(struct call* call) {
  const size_t bytes = call->count * call->type->bytes;
  const size_t ranks = (size_t)call->group->of.size, me = (size_t)call->group->me;
  /* Of many elements each is held against the reference by one rank: all have the same bits, which is checked, too. */
  const int is_shared = call->count >= kMany;
  const size_t from = is_shared ? call->count * me / ranks : 0;
  const size_t to = is_shared ? call->count * (me + 1) / ranks : call->count;
  const size_t wrong = call->type->wrong(call->recv, from, to, call->op, &call->group->of, call->seed);
  if (wrong) fail_call(call, "wrong elements", wrong);
  if (!guards_intact(call->recv, call->recv_block, bytes)) fail_call(call, "wrote beyond the result", 0);
  if (call->type->is_float || is_shared) check_same_bits(call, bytes);
  if (call->send) {
    char* again_block;
    char* again = guarded(bytes, 0, &again_block);
    call->type->fill(again, call->count, call->op, &call->group->of, call->group->me, call->seed);
    if (memcmp(again, call->send, bytes) != 0 || !guards_intact(call->send, call->send_block, bytes))
      fail_call(call, "the send buffer was changed", 0);
    free(again_block);
    free(call->send_block);
  }
  free(call->recv_block);
  ++cases_done;
}

double seconds_by(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int report(void) {
  long mine[2] = {cases_done, failures}, all[2] = {0, 0};
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Reduce(mine, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("check: %ld cases %ld failures\n", all[0], all[1]);
    fflush(stdout);
  }
  MPI_Bcast(all, 2, MPI_LONG, 0, MPI_COMM_WORLD);
  return all[1] == 0 && all[0] > 0 ? 0 : 1;
}
