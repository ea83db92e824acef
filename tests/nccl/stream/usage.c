#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/stream/stream.h"

struct here here_of(ncclComm_t comm) {
  struct here here = {comm, -1, 0, new_stream()};
  expect("ncclCommCount", ncclCommCount(comm, &here.size), ncclSuccess);
  expect("ncclCommUserRank", ncclCommUserRank(comm, &here.rank), ncclSuccess);
  return here;
}

void queries(struct here* here) {
  int device = -1;
  void *memory = (void*)new_buffer(1000), *handle = NULL;
  ncclResult_t state = ncclInternalError;
  expect("ncclCommCuDevice", ncclCommCuDevice(here->comm, &device), ncclSuccess);
  check(device == 0, "the device");
  expect("ncclCommGetAsyncError", ncclCommGetAsyncError(here->comm, &state), ncclSuccess);
  expect("the state", state, ncclSuccess);
  check(strlen(ncclGetLastError(here->comm)) == 0, "an error that there was not");
  expect("ncclCommRegister", ncclCommRegister(here->comm, memory, 1000, &handle), ncclSuccess);
  expect("ncclCommDeregister", ncclCommDeregister(here->comm, handle), ncclSuccess);
}

void memory(void) {
  void* made = NULL;
  expect("ncclMemAlloc", ncclMemAlloc(&made, 1000), ncclSuccess);
  expect("ncclMemFree", ncclMemFree(made), ncclSuccess);
}

static ncclResult_t sum(struct here* here, device_pointer in, device_pointer out, size_t n, int type,
                        int op) {
  return ncclAllReduce((void*)in, (void*)out, n, (ncclDataType_t)type, (ncclRedOp_t)op, here->comm,
                       here->stream);
}

void refusals(struct here* here) {
  double number = here->rank;
  ncclResult_t state = ncclInternalError;
  device_pointer a = buffer_of(&number, sizeof number);
  ncclComm_t child = NULL;
  expect("no communicator", ncclAllReduce((void*)a, (void*)a, 1, ncclFloat64, ncclSum, NULL, here->stream),
         ncclInvalidArgument);
  expect("an unknown type", sum(here, a, a, 1, 11, ncclSum), ncclInvalidUsage);
  check(strstr(ncclGetLastError(here->comm), "type") != NULL, "the last error");
  expect("an unknown operation", sum(here, a, a, 1, ncclFloat64, 99), ncclInvalidArgument);
  expect("the end of none", ncclCommDestroy(NULL), ncclSuccess);
  expect("the abort of none", ncclCommAbort(NULL), ncclSuccess);
  expect("an end without a start", ncclGroupEnd(), ncclInvalidUsage);
  expect("a null pointer", sum(here, 0, a, 1, ncclFloat64, ncclSum), ncclInvalidArgument);
  expect("to itself", ncclSend((void*)a, 1, ncclFloat64, here->rank, here->comm, here->stream),
         ncclInvalidUsage);
  expect("no such root",
         ncclBroadcast((void*)a, (void*)a, 1, ncclFloat64, here->size, here->comm, here->stream),
         ncclInvalidArgument);
  expect("ncclCommShrink", ncclCommShrink(here->comm, NULL, 0, &child, NULL, 0), ncclInvalidUsage);
  begin_capture(here->stream);
  state = sum(here, a, a, 1, ncclFloat64, ncclSum); /* refused where ranks share a process */
  check(state == ncclSuccess || state == ncclInvalidUsage, "a captured stream");
  if (state == ncclSuccess) tally("ncclAllReduce", 8);
  end_capture(here->stream);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  (void)sum(here, a, a, 1, ncclFloat64, 99);
  expect("a group with a wrong call", ncclGroupEnd(), ncclInvalidArgument);
  expect("ncclCommGetAsyncError", ncclCommGetAsyncError(here->comm, &state), ncclSuccess);
  expect("the state after refusals", state, ncclSuccess);
  CALL(ncclAllReduce, 8, (void*)a, (void*)a, 1, ncclFloat64, ncclSum, here->comm, here->stream);
  synchronize(here->stream);
  to_host(&number, a, sizeof number);
  check(number == here->size * (here->size - 1) / 2, "a sum after refusals");
}

/* Of NCCL 2.29 to 2.32: only the shim has them here, and so only where there is no NCCL. */
ncclResult_t ncclAllReduceConfig(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                 ncclComm_t comm, cudaStream_t stream, const void* config)
    __attribute__((weak));
ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm,
                        cudaStream_t stream) __attribute__((weak));

void newer_functions(struct here* here) {
  struct {
    size_t size;
    char others[56];
    void* event;
  } config = {sizeof config, {0}, NULL};
  double number = here->rank;
  if (!getenv("DDL_TEST_NEWER_NCCL")) return;
  device_pointer a = buffer_of(&number, sizeof number);
  for (int with = 0; with < 2; ++with) {
    tally("ncclAllReduce", 8);
    expect("ncclAllReduceConfig",
           ncclAllReduceConfig((void*)a, (void*)a, 1, ncclFloat64, ncclMax, here->comm, here->stream,
                               with ? &config : NULL),
           ncclSuccess);
  }
  synchronize(here->stream);
  to_host(&number, a, sizeof number);
  check(number == here->size - 1, "a maximum with a configuration");
  config.event = &config;
  expect("an event for its launch",
         ncclAllReduceConfig((void*)a, (void*)a, 1, ncclFloat64, ncclMax, here->comm, here->stream, &config),
         ncclInvalidUsage);
  expect("ncclSignal", ncclSignal(0, 0, 0, 0, here->comm, here->stream), ncclInvalidUsage);
}

/* With a call still under way, whose result comes all the same. */
void destroyed(struct here* here) {
  enum { kCount = 400000 };
  float* ones = malloc(kCount * sizeof *ones);
  int count = 0;
  for (int i = 0; i < kCount; ++i) ones[i] = 1;
  device_pointer a = buffer_of(ones, kCount * sizeof *ones);
  CALL(ncclAllReduce, kCount * sizeof *ones, (void*)a, (void*)a, kCount, ncclFloat32, ncclSum, here->comm,
       here->stream);
  expect("ncclCommFinalize", ncclCommFinalize(here->comm), ncclSuccess);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
  synchronize(here->stream);
  to_host(ones, a, kCount * sizeof *ones);
  for (int i = 0; i < kCount; ++i) check(ones[i] == (float)here->size, "a sum during destruction");
  expect("destroyed twice", ncclCommDestroy(here->comm), ncclInvalidArgument);
  expect("used when destroyed", ncclCommCount(here->comm, &count), ncclInvalidArgument);
  free(ones);
}

/* Refused before anybody is waited for. */
static void wrong_configs(struct here* here) {
  ncclConfig_t zeros = {0}, undecided = NCCL_CONFIG_INITIALIZER, huge = NCCL_CONFIG_INITIALIZER;
  ncclConfig_t* wrong_ones[] = {&zeros, &undecided, &huge};
  ncclUniqueId id;
  ncclComm_t none = NULL;
  undecided.blocking = 2;
  huge.size = (size_t)1 << 40;
  expect("ncclGetUniqueId", ncclGetUniqueId(&id), ncclSuccess);
  for (int i = 0; i < 3; ++i) {
    expect("a wrong configuration", ncclCommInitRankConfig(&none, here->size, id, here->rank, wrong_ones[i]),
           ncclInvalidArgument);
    expect("of a split", ncclCommSplit(here->comm, 0, 0, &none, wrong_ones[i]), ncclInvalidArgument);
    check(!none && strstr(ncclGetLastError(here->comm), "ncclConfig_t") != NULL, "the last error");
  }
}

/* What a program does that has asked for no waiting. */
ncclComm_t when_ready(ncclResult_t result, ncclComm_t* comm) {
  ncclResult_t state = result;
  check(result == ncclSuccess || result == ncclInProgress, "a nonblocking creation");
  while (*comm && state == ncclInProgress)
    expect("ncclCommGetAsyncError", ncclCommGetAsyncError(*comm, &state), ncclSuccess);
  expect("the state of a nonblocking creation", state, ncclSuccess);
  return *comm;
}

/* Odd and even ranks, the last first; then rank 0 alone, the others without a color. */
void splits(struct here* here) {
  ncclComm_t half = NULL, alone = NULL;
  double number = value(here->rank, 0), sum_of_half = 0;
  device_pointer a = buffer_of(&number, sizeof number);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  wrong_configs(here);
  when_ready(ncclCommSplit(here->comm, here->rank % 2, -here->rank, &half, &config), &half);
  struct here mine = here_of(half);
  check(mine.size == (here->size + 1 - here->rank % 2) / 2, "the size of a half");
  check(mine.rank == mine.size - 1 - here->rank / 2, "the rank in a half");
  CALL(ncclAllReduce, 8, (void*)a, (void*)a, 1, ncclFloat64, ncclSum, half, here->stream);
  synchronize(here->stream);
  to_host(&number, a, sizeof number);
  for (int r = here->rank % 2; r < here->size; r += 2) sum_of_half += value(r, 0);
  check(number == sum_of_half, "a sum of a half");
  expect("ncclCommDestroy", ncclCommDestroy(half), ncclSuccess);
  expect("no color", ncclCommSplit(here->comm, here->rank == 0 ? 7 : NCCL_SPLIT_NOCOLOR, 0, &alone, NULL),
         ncclSuccess);
  check((alone != NULL) == (here->rank == 0), "a split without color");
  if (alone) expect("ncclCommDestroy", ncclCommDestroy(alone), ncclSuccess);
}

static device_pointer some_floats(size_t n) {
  float* numbers = calloc(n, sizeof *numbers);
  device_pointer made = buffer_of(numbers, n * sizeof *numbers);
  free(numbers);
  return made;
}

/* One rank waits in a collective that the others never call. A call of several steps may find them gone
 * before its last step is enqueued: `or` that. */
void aborted(struct here* here, ncclResult_t or) {
  enum { kCount = 40000 };
  device_pointer a = some_floats(kCount);
  ncclResult_t result = here->rank == 0 ? sum(here, a, a, kCount, ncclFloat32, ncclSum) : ncclSuccess;
  if (result != or) expect("ncclAllReduce", result, ncclSuccess);
  expect("ncclCommAbort", ncclCommAbort(here->comm), ncclSuccess);
  synchronize(here->stream);
}

void await_failure(struct here* here, size_t count) {
  ncclResult_t state = ncclSuccess;
  synchronize(here->stream); /* it goes on */
  expect("ncclCommGetAsyncError", ncclCommGetAsyncError(here->comm, &state), ncclSuccess);
  expect("the state", state, ncclRemoteError);
  printf("last: %s\n", ncclGetLastError(here->comm));
  expect("the next call", sum(here, some_floats(count), some_floats(count), count, ncclFloat32, ncclSum),
         ncclRemoteError);
  expect("ncclCommAbort", ncclCommAbort(here->comm), ncclSuccess);
}

/* Threads: all ranks on one stream. Whoever does not come first is refused, and the other's stream goes on.
 * Nobody aborts before all have called: then the stream would be nobody's again. */
void same_stream(struct here* here, stream_t stream, atomic_int* refused) {
  static atomic_int have_called;
  device_pointer a = some_floats(1000);
  here->stream = stream;
  ncclResult_t result = sum(here, a, a, 1000, ncclFloat32, ncclSum);
  if (result == ncclInvalidUsage) atomic_fetch_add(refused, 1);
  check(result == ncclSuccess || result == ncclInvalidUsage, "the result on a shared stream");
  atomic_fetch_add(&have_called, 1);
  while (atomic_load(&have_called) < here->size) usleep(1000);
  synchronize(stream);
  expect("ncclCommAbort", ncclCommAbort(here->comm), ncclSuccess);
}

void dead_peer(struct here* here) {
  device_pointer a = some_floats(1000);
  if (here->rank == here->size - 1) _exit(0);
  ncclResult_t result = sum(here, a, a, 1000, ncclFloat32, ncclSum);
  if (result != ncclRemoteError) expect("ncclAllReduce", result, ncclSuccess); /* it may be known already */
  await_failure(here, 1);
}

/* It goes when all have made the call, and its stream has not come to it. */
void dead_amid(struct here* here) {
  static struct obstacle obstacle;
  device_pointer a = some_floats(100000);
  if (here->rank == here->size - 1) put_obstacle(&obstacle, here->stream);
  expect("ncclAllReduce", sum(here, a, a, 100000, ncclFloat32, ncclSum), ncclSuccess);
  if (here->rank == here->size - 1) {
    sleep(2);
    _exit(0);
  }
  await_failure(here, 1);
}

/* A sum, and one of inputs that are multiplied first: of one element, which is all that travels for either.
 */
void mismatch_of_scales(struct here* here) {
  float number = 2;
  ncclRedOp_t doubled;
  expect("create",
         ncclRedOpCreatePreMulSum(&doubled, &number, ncclFloat32, ncclScalarHostImmediate, here->comm),
         ncclSuccess);
  device_pointer a = some_floats(1);
  expect("ncclAllReduce", sum(here, a, a, 1, ncclFloat32, here->rank == 0 ? (int)doubled : ncclSum),
         ncclSuccess);
  await_failure(here, 1);
}

static void mismatched(struct here* here, size_t of_rank_0, size_t of_others) {
  size_t n = here->rank == 0 ? of_rank_0 : of_others;
  device_pointer a = some_floats(n);
  expect("ncclAllReduce", sum(here, a, a, n, ncclFloat32, ncclSum), ncclSuccess);
  await_failure(here, 1);
}

void mismatch_of_a_message(struct here* here) {
  size_t n = here->rank == 0 ? 3000000 : 3000001;
  device_pointer a = some_floats(n);
  if (here->rank == 0)
    expect("ncclSend", ncclSend((void*)a, n, ncclFloat32, 1, here->comm, here->stream), ncclSuccess);
  else
    expect("ncclRecv", ncclRecv((void*)a, n, ncclFloat32, 0, here->comm, here->stream), ncclSuccess);
  await_failure(here, 1);
}

void mismatch(struct here* here) { mismatched(here, 1000, 1001); }

/* All chunks that both have are alike. */
void mismatch_of_the_last_chunk(struct here* here) {
  size_t chunk = ((size_t)4 << 20) / sizeof(float);
  mismatched(here, 4 * chunk, 5 * chunk);
}
