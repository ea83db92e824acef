#include <stdlib.h>
#include <string.h>

#include "tests/nccl/client.h"

enum { kMostRanks = 16 };

struct here {
  ncclComm_t comm;
  int rank, size;
  uint64_t hash;
};

static void keep(struct here* here, const void* data, size_t bytes) {
  here->hash = hash(here->hash, data, bytes);
}

static double sum_of(const struct here* here, size_t i) {
  double sum = 0;
  for (int r = 0; r < here->size; ++r) sum += value(r, i);
  return sum;
}

static void sums(struct here* here, size_t n) {
  double *in = values(here->rank, n), *out = values(-1, n);
  size_t bytes = n * sizeof *in;
  CALL(ncclAllReduce, bytes, in, out, n, ncclFloat64, ncclSum, here->comm, NULL);
  for (size_t i = 0; i < n; ++i) check(out[i] == sum_of(here, i), "a sum");
  keep(here, out, bytes);
  CALL(ncclAllReduce, bytes, in, in, n, ncclFloat64, ncclMax, here->comm, NULL);
  for (size_t i = 0; i < n; ++i) check(in[i] == value(here->size - 1, i), "a maximum in place");
  keep(here, in, bytes);
  free(in);
  free(out);
}

static void integers(struct here* here) {
  int in[9], out[9];
  for (int i = 0; i < 9; ++i) in[i] = here->rank + i;
  CALL(ncclAllReduce, sizeof in, in, out, 9, ncclInt32, ncclProd, here->comm, NULL);
  for (int i = 0; i < 9; ++i) {
    int product = 1;
    for (int r = 0; r < here->size; ++r) product *= r + i;
    check(out[i] == product, "a product");
  }
  keep(here, out, sizeof out);
}

static void rooted(struct here* here, size_t n, int root) {
  double *in = values(here->rank, n), *out = values(-1, n);
  size_t bytes = n * sizeof *in;
  CALL(ncclReduce, bytes, in, out, n, ncclFloat64, ncclSum, root, here->comm, NULL);
  for (size_t i = 0; i < n; ++i) check(here->rank != root || out[i] == sum_of(here, i), "a reduced sum");
  CALL(ncclBroadcast, bytes, in, out, n, ncclFloat64, root, here->comm, NULL);
  for (size_t i = 0; i < n; ++i) check(out[i] == value(root, i), "a broadcast value");
  CALL(ncclBcast, bytes, in, n, ncclFloat64, root, here->comm, NULL);
  for (size_t i = 0; i < n; ++i) check(in[i] == value(root, i), "a value broadcast in place");
  keep(here, in, bytes);
  free(in);
  free(out);
}

static void shares(struct here* here, size_t n) {
  size_t all = n * (size_t)here->size, bytes = all * sizeof(double);
  double *one = values(here->rank, n), *whole = values(-1, all), *in = values(here->rank, all);
  CALL(ncclAllGather, bytes, one, whole, n, ncclFloat64, here->comm, NULL);
  for (size_t i = 0; i < all; ++i) check(whole[i] == value((int)(i / n), i % n), "a gathered value");
  keep(here, whole, bytes);
  CALL(ncclReduceScatter, bytes, in, one, n, ncclFloat64, ncclSum, here->comm, NULL);
  for (size_t i = 0; i < n; ++i) check(one[i] == sum_of(here, (size_t)here->rank * n + i), "a scattered sum");
  keep(here, one, n * sizeof *one);
  CALL(ncclAlltoAll, bytes, in, whole, n, ncclFloat64, here->comm, NULL);
  for (size_t i = 0; i < all; ++i)
    check(whole[i] == value((int)(i / n), (size_t)here->rank * n + i % n), "an exchanged value");
  CALL(ncclGather, bytes, one, whole, n, ncclFloat64, 0, here->comm, NULL);
  CALL(ncclScatter, bytes, whole, one, n, ncclFloat64, 0, here->comm, NULL);
  for (size_t i = 0; i < n; ++i)
    check(one[i] == sum_of(here, (size_t)here->rank * n + i), "what was gathered and scattered again");
  free(one);
  free(whole);
  free(in);
}

/* A ring of messages: would hang outside a group. */
static void ring(struct here* here, size_t n) {
  double *out = values(here->rank, n), *in = values(-1, n);
  int right = (here->rank + 1) % here->size, left = (here->rank + here->size - 1) % here->size;
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  CALL(ncclSend, n * sizeof *out, out, n, ncclFloat64, right, here->comm, NULL);
  CALL(ncclRecv, n * sizeof *in, in, n, ncclFloat64, left, here->comm, NULL);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  for (size_t i = 0; i < n; ++i) check(in[i] == value(left, i), "a received value");
  keep(here, in, n * sizeof *in);
  free(in);
  free(out);
}

/* Groups in groups; an operation destroyed before the group ends; the same buffer twice, so that order
 * matters. */
static void groups(struct here* here) {
  double *a = values(here->rank, 100), *b = values(here->rank, 50), half = 0.5, sum = 0;
  ncclRedOp_t halves;
  for (int r = 0; r < here->size; ++r) sum += value(r, 7);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  CALL(ncclAllReduce, 800, a, a, 100, ncclFloat64, ncclSum, here->comm, NULL);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  expect("create", ncclRedOpCreatePreMulSum(&halves, &half, ncclFloat64, ncclScalarHostImmediate, here->comm),
         0);
  CALL(ncclAllReduce, 400, b, b, 50, ncclFloat64, halves, here->comm, NULL);
  expect("ncclRedOpDestroy", ncclRedOpDestroy(halves, here->comm), ncclSuccess);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  CALL(ncclAllReduce, 800, a, a, 100, ncclFloat64, ncclMax, here->comm, NULL);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  check(a[7] == sum, "a sum, then a maximum, in a group");
  check(b[7] == sum / 2, "an operation of the program's own");
  keep(here, a, 800);
  expect("empty", ncclGroupStart() + ncclGroupEnd(), ncclSuccess);
  free(a);
  free(b);
}

/* What is only simulated must not happen. */
static void simulated(struct here* here) {
  double *a = values(here->rank, 10), *b = values(here->rank, 10);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  expect("simulated", ncclAllReduce(a, a, 10, ncclFloat64, ncclSum, here->comm, NULL), ncclSuccess);
  expect("ncclGroupSimulateEnd", ncclGroupSimulateEnd(&info), ncclSuccess);
  check(memcmp(a, b, 80) == 0, "a simulated call did something");
  check(info.estimatedTime >= 0, "no estimate");
  free(a);
  free(b);
}

/* A second communicator, used together with the first, in one group. */
static void halves(struct here* here) {
  ncclComm_t half = NULL, smaller = NULL;
  int size = 0, rank = -1, last = here->size - 1;
  double *a = values(here->rank, 20), *b = values(here->rank, 20), sum = 0;
  expect("ncclCommSplit", ncclCommSplit(here->comm, here->rank % 2, here->size - here->rank, &half, NULL), 0);
  expect("ncclCommCount", ncclCommCount(half, &size), ncclSuccess);
  expect("ncclCommUserRank", ncclCommUserRank(half, &rank), ncclSuccess);
  check(size == (here->size + 1 - here->rank % 2) / 2, "the size of a half");
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  CALL(ncclAllReduce, 160, a, a, 20, ncclFloat64, ncclSum, here->comm, NULL);
  CALL(ncclAllReduce, 160, b, b, 20, ncclFloat64, ncclSum, half, NULL);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  for (int r = here->rank % 2; r < here->size; r += 2) sum += value(r, 3);
  check(a[3] == sum_of(here, 3) && b[3] == sum, "sums on two communicators at once");
  keep(here, b, 160);
  expect("ncclCommDestroy", ncclCommDestroy(half), ncclSuccess);
  expect("no color", ncclCommSplit(here->comm, here->rank == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &half, NULL), 0);
  check((here->rank == 0) == (half != NULL), "a split without color");
  if (half) expect("ncclCommAbort", ncclCommAbort(half), ncclSuccess);
  if (here->size > 1 && here->rank != last) {
    expect("ncclCommShrink", ncclCommShrink(here->comm, &last, 1, &smaller, NULL, 0), ncclSuccess);
    CALL(ncclAllReduce, 160, a, a, 20, ncclFloat64, ncclMin, smaller, NULL);
    expect("ncclCommDestroy", ncclCommDestroy(smaller), ncclSuccess);
  }
  free(a);
  free(b);
}

static void errors(struct here* here) {
  double a[4] = {0};
  ncclResult_t state = ncclInternalError;
  ncclComm_t none = NULL;
  expect("an end without a start", ncclGroupEnd(), ncclInvalidUsage);
  expect("no such root", ncclBroadcast(a, a, 4, ncclFloat64, here->size, here->comm, NULL),
         ncclInvalidArgument);
  check(strlen(ncclGetLastError(here->comm)) > 0, "no last error");
  expect("no communicator", ncclAllReduce(a, a, 4, ncclFloat64, ncclSum, none, NULL), ncclInvalidArgument);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  (void)ncclBroadcast(a, a, 4, ncclFloat64, here->size, here->comm, NULL);
  expect("a group with a wrong call", ncclGroupEnd(), ncclInvalidArgument);
  expect("ncclCommGetAsyncError", ncclCommGetAsyncError(here->comm, &state), ncclSuccess);
  expect("the state", state, ncclSuccess);
}

uint64_t all_cases(ncclComm_t comm) {
  struct here here = {comm, -1, 0, 1469598103934665603u};
  expect("ncclCommCount", ncclCommCount(comm, &here.size), ncclSuccess);
  expect("ncclCommUserRank", ncclCommUserRank(comm, &here.rank), ncclSuccess);
  size_t counts[] = {0, 1, 7, 1000, 30011};
  for (int i = 0; i < 5; ++i) sums(&here, counts[i]);
  integers(&here);
  for (int root = 0; root < here.size; ++root) rooted(&here, 1001, root);
  shares(&here, 9000);
  ring(&here, 3000);
  groups(&here);
  simulated(&here);
  halves(&here);
  errors(&here);
  return here.hash;
}
