/* Groups of many all-reduces, which the engine may do as few. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/nccl/stream/stream.h"

enum { kCalls = 120, kTurns = 3, kLarge = 40000 };

/* One all-reduce of a group, with what must come out. */
struct one {
  struct here on;
  device_pointer in, out;
  size_t n, bytes;
  int type, op;
  ncclRedOp_t own; /* where op is kOwn */
  int factor;
  char *result, *right;
};
enum { kOwn = 5, kKinds = 6 };

static void make(struct one* one, struct here on, int i, size_t n, int type, int op) {
  char element[8];
  *one = (struct one){.on = on, .n = n, .type = type, .op = op};
  size_t size = put(type, 0, element);
  one->bytes = n * size;
  char* in = malloc(one->bytes + 8);
  one->result = calloc(1, one->bytes + 8);
  one->right = malloc(one->bytes + 8);
  one->factor = 1 + i % 3;
  if (op == kOwn) {
    put(type, one->factor, element);
    expect(
        "create",
        ncclRedOpCreatePreMulSum(&one->own, element, (ncclDataType_t)type, ncclScalarHostImmediate, on.comm),
        ncclSuccess);
    for (size_t k = 0; k < n; ++k) {
      put(type, (int)(k % 4), in + k * size);
      put(type, one->factor * on.size * (int)(k % 4), one->right + k * size);
    }
  } else {
    fill(in, n, type, op, &on, 0);
    fill(one->right, n, type, op, &on, 1);
  }
  one->in = buffer_of(in, one->bytes + 8);
  one->out = i / 3 % 2 ? one->in : buffer_of(one->result, one->bytes + 8);
  free(in);
}

static void call(const struct one* one) {
  CALL(ncclAllReduce, one->bytes, (void*)one->in, (void*)one->out, one->n, (ncclDataType_t)one->type,
       one->op == kOwn ? one->own : (ncclRedOp_t)one->op, one->on.comm, one->on.stream);
  if (one->op == kOwn) expect("ncclRedOpDestroy", ncclRedOpDestroy(one->own, one->on.comm), ncclSuccess);
}

static void check_one(struct one* one) {
  char what[80];
  synchronize(one->on.stream);
  to_host(one->result, one->out, one->bytes);
  snprintf(what, sizeof what, "one of many: %zu of type %d, operation %d", one->n, one->type, one->op);
  check(memcmp(one->result, one->right, one->bytes) == 0, what);
  free(one->result);
  free(one->right);
}

/* Two communicators, two streams each; four types; every operation; in place and not; none, few and many
 * elements; something else in between. */
static void many(struct here* here, struct here* other, stream_t side, int turn) {
  static const int types[] = {ncclInt32, ncclFloat32, ncclFloat16, ncclInt64};
  struct one calls[kCalls];
  double root = here->rank == 0;
  device_pointer sent = buffer_of(&root, sizeof root);
  for (int i = 0; i < kCalls; ++i) {
    struct here on = i % 5 ? *here : *other;
    if (i % 3 == 0) on.stream = side;
    size_t n = i == 50 ? kLarge : (size_t)((i * 97 + turn) % 400);
    make(&calls[i], on, i, n, types[i % 4], i / 4 % kKinds);
  }
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < kCalls; ++i) {
    call(&calls[i]);
    if (i == kCalls / 2)
      CALL(ncclBroadcast, 8, (void*)sent, (void*)sent, 1, ncclFloat64, 0, here->comm, here->stream);
  }
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  for (int i = 0; i < kCalls; ++i) check_one(&calls[i]);
  synchronize(here->stream);
  to_host(&root, sent, sizeof root);
  check(root == 1, "a broadcast among all-reduces");
}

/* Each rank has its own streams, and what comes before on one of them is the input of the calls there; what
 * comes behind has their results. */
static void across_streams(struct here* here, stream_t side) {
  enum { kCount = 90 }; /* fewer bytes than travel narrower */
  struct here there = *here;
  there.stream = side;
  struct here* late[] = {here, &there};
  for (int turn = 0; turn < 2; ++turn) {
    double *in = values(here->rank, kCount), *out = pinned_buffer(kCount * sizeof *out), sum = 0;
    double* from = pinned_buffer(kCount * sizeof *from);
    struct obstacle* obstacle = calloc(1, sizeof *obstacle);
    device_pointer a = buffer_of(in, kCount * sizeof *in), b = new_buffer(kCount * sizeof *in);
    memcpy(from, in, kCount * sizeof *in);
    put_obstacle(obstacle, late[turn]->stream);
    copy_to_device(b, from, kCount * sizeof *in, side);
    expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
    CALL(ncclAllReduce, 8 * kCount, (void*)a, (void*)a, kCount, ncclFloat64, ncclSum, here->comm,
         here->rank % 2 ? side : here->stream);
    CALL(ncclAllReduce, 8 * kCount, (void*)b, (void*)b, kCount, ncclFloat64, ncclSum, here->comm, side);
    expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
    copy_to_host(out, b, kCount * sizeof *in, side);
    usleep(10000);
    remove_obstacle(obstacle);
    synchronize(side);
    synchronize(here->stream);
    for (int r = 0; r < here->size; ++r) sum += value(r, 7);
    check(out[7] == sum, "a sum on the second stream of a group");
    to_host(in, a, kCount * sizeof *in);
    check(in[7] == sum, "a sum on the first stream of a group");
    free(in);
  }
}

void fused(struct here* here, struct here* other) {
  stream_t side = new_stream();
  for (int turn = 0; turn < kTurns; ++turn) many(here, other, side, turn);
  across_streams(here, side);
  expect("ncclCommDestroy", ncclCommDestroy(other->comm), ncclSuccess);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}

static void small_ones(struct here* here, device_pointer a, size_t n, int calls) {
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < calls; ++i) {
    void* at = (void*)(a + (size_t)i * n * sizeof(float));
    CALL(ncclAllReduce, n * sizeof(float), at, at, n, ncclFloat32, ncclSum, here->comm, here->stream);
  }
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
}

/* With allocations.c preloaded: a group whose like there has been before makes none in the program's thread.
 */
void fused_without_allocations(struct here* here) {
  enum { kCount = 100, kMany = 200 };
  void (*begin)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "allocations_begin");
  size_t (*end)(void) = (size_t(*)(void))dlsym(RTLD_DEFAULT, "allocations_end");
  check(begin && end, "allocations can be counted");
  float* zeros = calloc(kCount * kMany, sizeof *zeros);
  device_pointer a = buffer_of(zeros, kCount * kMany * sizeof *zeros);
  for (int turn = 0; begin && end && turn < 6; ++turn) {
    begin();
    small_ones(here, a, kCount, kMany);
    check(end() == 0 || turn < 3, "no allocations for a group like others before");
    synchronize(here->stream);
  }
  free(zeros);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}

/* The same elements in all, cut another way. */
void fused_mismatch(struct here* here) {
  float* zeros = calloc(100, sizeof *zeros);
  device_pointer a = buffer_of(zeros, 100 * sizeof *zeros);
  size_t first = here->rank == 0 ? 40 : 60;
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    void* at = (void*)(a + (i ? first * sizeof *zeros : 0));
    expect("ncclAllReduce",
           ncclAllReduce(at, at, i ? 100 - first : first, ncclFloat32, ncclSum, here->comm, here->stream),
           ncclSuccess);
  }
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  free(zeros);
  await_failure(here, 1);
}

static double now_ms(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return 1e3 * (double)at.tv_sec + 1e-6 * (double)at.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* DDL_TEST_GROUP all-reduces of DDL_TEST_BYTES each in one group: the median over some. */
void time_groups(struct here* here) {
  enum { kTimes = 11 };
  const char *calls = getenv("DDL_TEST_GROUP"), *bytes = getenv("DDL_TEST_BYTES");
  int n = calls ? atoi(calls) : 400;
  size_t each = (bytes ? strtoull(bytes, NULL, 10) : 4096) / sizeof(float);
  device_pointer a = new_buffer((size_t)n * each * sizeof(float));
  double took[kTimes];
  for (int turn = -2; turn < kTimes; ++turn) {
    small_ones(here, a, 1, 1);
    synchronize(here->stream);
    double began = now_ms();
    small_ones(here, a, each, n);
    synchronize(here->stream);
    if (turn >= 0) took[turn] = now_ms() - began;
  }
  qsort(took, kTimes, sizeof *took, by_value);
  if (here->rank == 0)
    printf("measured: %d ranks, a group of %d all-reduces of %zu bytes: %.2f ms\n", here->size, n,
           each * sizeof(float), took[kTimes / 2]);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}
