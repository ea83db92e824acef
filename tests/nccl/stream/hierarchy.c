/* Each rank on a GPU of its own, so that NCCL itself serves the communicator: what is there for plans on
 * smaller ones. Calls of 64 KiB and more have plans where the test says so; the program cannot tell. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/stream/stream.h"

enum { kCount = 9001 };

static double sum_of(const struct here* here, size_t i) {
  double sum = 0;
  for (int r = 0; r < here->size; ++r) sum += value(r, i);
  return sum;
}

static void expect_sum(struct here* here, device_pointer buffer, const char* what) {
  double* out = values(-1, kCount);
  synchronize(here->stream);
  to_host(out, buffer, kCount * sizeof *out);
  for (size_t i = 0; i < kCount; ++i) check(out[i] == sum_of(here, i), what);
  free(out);
}

static device_pointer mine(const struct here* here) {
  double* in = values(here->rank, kCount);
  device_pointer made = buffer_of(in, kCount * sizeof *in);
  free(in);
  return made;
}

static void sum(struct here* here, device_pointer buffer) {
  CALL(ncclAllReduce, kCount * sizeof(double), (void*)buffer, (void*)buffer, kCount, ncclFloat64, ncclSum,
       here->comm, here->stream);
}

void sum_of_a_plan(struct here* here) {
  ncclResult_t state = ncclInternalError;
  device_pointer a = mine(here);
  sum(here, a);
  expect_sum(here, a, "a sum");
  expect("ncclCommGetAsyncError", ncclCommGetAsyncError(here->comm, &state), ncclSuccess);
  expect("the state", state, ncclSuccess);
}

/* Alone in its group on every rank, but on some beside a call on another communicator. */
static void lone_in_a_group(struct here* here) {
  ncclComm_t alone = NULL;
  device_pointer a = mine(here), b = mine(here);
  double number = 0;
  expect("split", ncclCommSplit(here->comm, here->rank, 0, &alone, NULL), ncclSuccess);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  if (here->rank % 2)
    CALL(ncclAllReduce, 8, (void*)b, (void*)b, 1, ncclFloat64, ncclMax, alone, here->stream);
  sum(here, a);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  expect_sum(here, a, "a sum that is alone in its group");
  to_host(&number, b, sizeof number);
  check(number == value(here->rank, 0), "a maximum of one beside it");
  expect("ncclCommDestroy", ncclCommDestroy(alone), ncclSuccess);
}

static void two_in_a_group(struct here* here) {
  device_pointer a = mine(here), b = mine(here);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  sum(here, a);
  sum(here, b);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  expect_sum(here, a, "the first sum of a group");
  expect_sum(here, b, "the second sum of a group");
}

/* Messages are between two: the other ranks have the sum alone in their group. */
static void beside_a_message(struct here* here) {
  device_pointer a = mine(here), b = mine(here);
  double number = 0;
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  sum(here, a);
  if (here->rank == 0) CALL(ncclSend, 8, (void*)b, 1, ncclFloat64, 1, here->comm, here->stream);
  if (here->rank == 1) CALL(ncclRecv, 8, (void*)b, 1, ncclFloat64, 0, here->comm, here->stream);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  expect_sum(here, a, "a sum beside a message");
  to_host(&number, b, sizeof number);
  if (here->rank == 1) check(number == value(0, 0), "a message beside a sum");
}

/* What is captured is not done; what comes after is. */
static void captured(struct here* here) {
  device_pointer a = mine(here);
  double number = 0;
  begin_capture(here->stream);
  sum(here, a);
  end_capture(here->stream);
  synchronize(here->stream);
  to_host(&number, a, sizeof number);
  check(number == value(here->rank, 0), "a captured call did something");
  sum(here, a);
  expect_sum(here, a, "a sum after a captured one");
}

/* One call behind the other, without a wait between them. */
static void many_at_once(struct here* here) {
  enum { kCalls = 12 };
  device_pointer a[kCalls];
  for (int i = 0; i < kCalls; ++i) a[i] = mine(here);
  for (int i = 0; i < kCalls; ++i) sum(here, a[i]);
  for (int i = 0; i < kCalls; ++i) expect_sum(here, a[i], "one of many sums");
}

/* Finalized and destroyed right behind its last call. */
static void ended(struct here* here) {
  device_pointer a = mine(here);
  ncclResult_t state = ncclInternalError;
  expect("ncclCommGetAsyncError", ncclCommGetAsyncError(here->comm, &state), ncclSuccess);
  expect("the state", state, ncclSuccess);
  sum(here, a);
  expect("ncclCommFinalize", ncclCommFinalize(here->comm), ncclSuccess);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
  expect_sum(here, a, "a sum before the end");
}

/* The same call again and again, until it is known how it goes best, and some more; a few in other places on
 * the way, and a wait now and then, as in a training loop. */
static void until_tuned(struct here* here) {
  enum { kCalls = 160, kAtOnce = 4 };
  device_pointer a[kAtOnce];
  double* in = values(here->rank, kCount);
  for (int i = 0; i < kAtOnce; ++i) a[i] = mine(here);
  for (int i = 0; i < kCalls; i += kAtOnce) {
    for (int k = 0; k < kAtOnce; ++k) {
      to_device(a[k], in, kCount * sizeof *in);
      sum(here, a[k]);
    }
    for (int k = 0; k < kAtOnce; ++k) expect_sum(here, a[k], "a sum while ways are tried");
  }
  free(in);
}

void tuned(struct here* here) {
  until_tuned(here);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}

/* All types and operations in sizes of which it is known how they go best. */
void tuned_numbers(struct here* here) {
  enum { kCalls = 100, kLeast = 65536, kMost = 655360 };
  float* nothing = calloc(1, kMost);
  device_pointer a = buffer_of(nothing, kMost);
  free(nothing);
  for (size_t bytes = kLeast + 64; bytes < kMost; bytes *= 2)
    for (int i = 0; i < kCalls; ++i) {
      CALL(ncclAllReduce, bytes, (void*)a, (void*)a, bytes / sizeof(float), ncclFloat32, ncclSum, here->comm,
           here->stream);
      synchronize(here->stream);
    }
  many_of_each_type(here);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}

/* Now a rank makes a call that the others do not. */
void tuned_and_aborted(struct here* here) {
  until_tuned(here);
  if (here->rank == 0) sum(here, mine(here));
  usleep(20000);
  expect("ncclCommAbort", ncclCommAbort(here->comm), ncclSuccess);
  synchronize(here->stream);
}

void tuned_and_dead(struct here* here) {
  until_tuned(here);
  if (here->rank == here->size - 1) _exit(0);
  device_pointer a = mine(here);
  ncclResult_t result =
      ncclAllReduce((void*)a, (void*)a, kCount, ncclFloat64, ncclSum, here->comm, here->stream);
  if (result != ncclRemoteError) expect("ncclAllReduce", result, ncclSuccess); /* it may be known already */
  await_failure(here, 2 * kCount);
}

/* The same where one thread has all ranks, each on its device: their calls are one group. */
void tuned_by_one_thread(struct here* all, int n) {
  enum { kCalls = 160 };
  device_pointer a[16];
  double* in[16];
  for (int r = 0; r < n; ++r) {
    use_device(r);
    in[r] = values(r, kCount);
    a[r] = mine(all + r);
  }
  for (int i = 0; i < kCalls; ++i) {
    for (int r = 0; r < n; ++r) to_device(a[r], in[r], kCount * sizeof *in[r]);
    expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
    for (int r = 0; r < n; ++r) sum(all + r, a[r]);
    expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
    for (int r = 0; r < n; ++r) expect_sum(all + r, a[r], "one thread's sum while ways are tried");
  }
  for (int r = 0; r < n; ++r) {
    free(in[r]);
    expect("ncclCommDestroy", ncclCommDestroy(all[r].comm), ncclSuccess);
  }
}

static struct here split_of(const struct here* from, int color, int key) {
  ncclComm_t comm = NULL;
  struct here none = {0};
  expect("split", ncclCommSplit(from->comm, color, key, &comm, NULL), ncclSuccess);
  check((comm == NULL) == (color == NCCL_SPLIT_NOCOLOR), "who is in a split");
  return comm ? here_of(comm) : none;
}

static void sums(struct here* here, int n) {
  for (int i = 0; i < n; ++i) sum_of_a_plan(here);
}

/* Five ranks on two hosts, where the third, on the larger host, is one too many. */
void splits_with_plans(struct here* here) {
  enum { kCalls = 20 };
  int is_out = here->rank == 2;
  struct here even = split_of(here, is_out ? NCCL_SPLIT_NOCOLOR : 3, 0);
  sums(here, 3);
  if (is_out) {
    split_of(here, 1, 0);
    expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
    return;
  }
  sums(&even, kCalls);
  /* Both in one group, in another order; and again, when the first parent is gone. */
  ncclComm_t comms[2];
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  expect("split", ncclCommSplit(even.comm, 0, -even.rank, comms, NULL), ncclSuccess);
  expect("split", ncclCommSplit(even.comm, even.rank % 2, 0, comms + 1, NULL), ncclSuccess);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  struct here turned = here_of(comms[0]), pair = here_of(comms[1]);
  check(turned.rank == 3 - even.rank && pair.size == 2, "splits in a group");
  sums(&turned, kCalls);
  sums(&pair, 6);
  split_of(here, 1, here->rank);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
  struct here last = split_of(&even, 7, 0);
  expect("ncclCommDestroy", ncclCommDestroy(even.comm), ncclSuccess);
  sums(&last, kCalls);
  expect("ncclCommDestroy", ncclCommDestroy(last.comm), ncclSuccess);
  expect("ncclCommDestroy", ncclCommDestroy(pair.comm), ncclSuccess);
  expect("ncclCommAbort", ncclCommAbort(turned.comm), ncclSuccess);
}

/* Rank 0 is left out, and gone before the others have met. A split that one rank is refused counts for
 * nobody. */
void splits_without_the_first(struct here* here) {
  ncclConfig_t garbage = {0};
  ncclComm_t none = NULL;
  if (here->rank == 1)
    expect("garbage", ncclCommSplit(here->comm, 0, 0, &none, &garbage), ncclInvalidArgument);
  struct here all = split_of(here, 0, 0);
  sums(&all, 6);
  if (here->rank == 1) usleep(200000); /* NCCL's own split is through on the first */
  struct here rest = split_of(here, here->rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, 0);
  if (rest.comm) sums(&rest, 20);
  if (rest.comm) expect("ncclCommDestroy", ncclCommDestroy(rest.comm), ncclSuccess);
  expect("ncclCommDestroy", ncclCommDestroy(all.comm), ncclSuccess);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}

/* The same parts where one thread has all ranks: two splits of each in one group. */
void splits_by_one_thread(struct here* all, int n) {
  enum { kMost = 16 };
  ncclComm_t even[kMost], halves[kMost];
  struct here part[kMost];
  device_pointer a[kMost];
  int parts = 0;
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < n; ++r) {
    int color = r == 2 ? NCCL_SPLIT_NOCOLOR : 0;
    expect("split", ncclCommSplit(all[r].comm, color, 0, even + r, NULL), ncclSuccess);
    expect("split", ncclCommSplit(all[r].comm, r % 2, 0, halves + r, NULL), ncclSuccess);
  }
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  for (int r = 0; r < n; ++r) {
    use_device(r);
    if (!even[r]) continue;
    part[parts] = here_of(even[r]);
    a[parts] = mine(part + parts);
    ++parts;
  }
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < parts; ++i) sum(part + i, a[i]);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  for (int i = 0; i < parts; ++i) {
    expect_sum(part + i, a[i], "one thread's sum of a part");
    expect("ncclCommDestroy", ncclCommDestroy(part[i].comm), ncclSuccess);
  }
  for (int r = 0; r < n; ++r) {
    expect("ncclCommDestroy", ncclCommDestroy(halves[r]), ncclSuccess);
    expect("ncclCommDestroy", ncclCommDestroy(all[r].comm), ncclSuccess);
  }
}

/* With allocations.c preloaded: a call whose like has been made before makes none, alone or in a group. */
void without_allocations(struct here* here) {
  enum { kRounds = 120, kCounted = 20 };
  void (*begin)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "allocations_begin");
  size_t (*end)(void) = (size_t(*)(void))dlsym(RTLD_DEFAULT, "allocations_end");
  size_t first = 0;
  int later = 0;
  device_pointer a = mine(here);
  check(begin && end, "allocations can be counted");
  for (int round = 0; round < kRounds; ++round) {
    begin();
    sum(here, a);
    expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
    sum(here, a);
    expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
    size_t now = end();
    if (round == 0) first = now;
    if (round >= kRounds - kCounted) later += now > 0;
    synchronize(here->stream);
  }
  check(first > 0, "they are counted");
  check(later <= 1, "later calls allocate nothing"); /* but where a route is settled just then */
}

void on_hierarchies(struct here* here) {
  numbers(here);
  many_of_each_type(here);
  streams(here);
  groups(here);
  collectives(here, 30011); /* NCCL's own */
  lone_in_a_group(here);
  two_in_a_group(here);
  beside_a_message(here);
  captured(here);
  many_at_once(here);
  ended(here);
}
