#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/stream/stream.h"

static double sum_of(const struct here* here, size_t i) {
  double sum = 0;
  for (int r = 0; r < here->size; ++r) sum += value(r, i);
  return sum;
}

static void sum(struct here* here, size_t n) {
  double *in = values(here->rank, n), *out = values(-1, n);
  size_t bytes = n * sizeof *in;
  device_pointer from = buffer_of(in, bytes), to = buffer_of(out, bytes);
  CALL(ncclAllReduce, bytes, (void*)from, (void*)to, n, ncclFloat64, ncclSum, here->comm, here->stream);
  CALL(ncclAllReduce, bytes, (void*)from, (void*)from, n, ncclFloat64, ncclMax, here->comm, here->stream);
  synchronize(here->stream);
  to_host(out, to, bytes);
  to_host(in, from, bytes);
  for (size_t i = 0; i < n; ++i) check(out[i] == sum_of(here, i), "a sum");
  for (size_t i = 0; i < n; ++i) check(in[i] == value(here->size - 1, i), "a maximum in place");
  free(in);
  free(out);
}

/* Less and more than a chunk of the staging, and odd. */
void numbers(struct here* here) {
  size_t counts[] = {0, 1, 7, 1000, 30011, 1700003};
  for (int i = 0; i < 6; ++i) sum(here, counts[i]);
}

/* ---- types and operations: small whole numbers, the same in every type ---- */

enum { kTypes = 10, kOps = 5, kElements = 1003 };

static uint16_t half_of(int number) { /* 0 to 2047 */
  int exponent = 0;
  if (number == 0) return 0;
  while (number >> (exponent + 1)) ++exponent;
  return (uint16_t)((exponent + 15) << 10 | ((number << (10 - exponent)) & 1023));
}

static uint16_t brain_of(int number) { /* up to 255 */
  float wide = (float)number;
  uint32_t bits;
  memcpy(&bits, &wide, 4);
  return (uint16_t)(bits >> 16);
}

#define PUT(type, T)                   \
  case type: {                         \
    T converted = (T)number;           \
    memcpy(at, &converted, sizeof(T)); \
    return sizeof(T);                  \
  }
size_t put(int type, int number, void* at) {
  switch (type) {
    PUT(ncclInt8, signed char)
    PUT(ncclUint8, unsigned char)
    PUT(ncclInt32, int32_t)
    PUT(ncclUint32, uint32_t)
    PUT(ncclInt64, int64_t)
    PUT(ncclUint64, uint64_t)
    PUT(ncclFloat32, float)
    PUT(ncclFloat64, double)
    case ncclFloat16: {
      uint16_t bits = half_of(number);
      memcpy(at, &bits, 2);
      return 2;
    }
    default: {
      uint16_t bits = brain_of(number);
      memcpy(at, &bits, 2);
      return 2;
    }
  }
}

/* Of up to 6 ranks every result, and every sum on the way to it, is a whole number below 128. */
static int brought(int rank, size_t i, int op, int size) {
  if (op == ncclProd) return rank < 2 ? 1 + (int)(i % 3) : 1;
  if (op == ncclAvg) return ((int)(i % 3) + rank % 3) * size;
  return (int)(i % 11) + rank;
}

static int expected(size_t i, int op, int size) {
  int result = brought(0, i, op, size);
  for (int r = 1; r < size; ++r) {
    int one = brought(r, i, op, size);
    if (op == ncclSum || op == ncclAvg) result += one;
    if (op == ncclProd) result *= one;
    if (op == ncclMax) result = one > result ? one : result;
    if (op == ncclMin) result = one < result ? one : result;
  }
  return op == ncclAvg ? result / size : result;
}

void fill(char* bytes, size_t n, int type, int op, const struct here* here, int right) {
  for (size_t i = 0, at = 0; i < n; ++i)
    at += put(type, right ? expected(i, op, here->size) : brought(here->rank, i, op, here->size), bytes + at);
}

static void one_type(struct here* here, int type, int op, size_t n) {
  char one[8];
  size_t bytes = n * put(type, 0, one);
  char *in = malloc(bytes), *out = calloc(1, bytes), *right = malloc(bytes);
  fill(in, n, type, op, here, 0);
  fill(right, n, type, op, here, 1);
  device_pointer from = buffer_of(in, bytes), to = buffer_of(out, bytes);
  CALL(ncclAllReduce, bytes, (void*)from, (void*)to, n, (ncclDataType_t)type, (ncclRedOp_t)op, here->comm,
       here->stream);
  synchronize(here->stream);
  to_host(out, to, bytes);
  if (memcmp(out, right, bytes) != 0) {
    char what[80];
    snprintf(what, sizeof what, "a result of type %d, operation %d", type, op);
    check(0, what);
  }
  free(in);
  free(out);
  free(right);
}

/* The inputs times three, summed. */
static void own_operation(struct here* here, int type) {
  char in[kElements * 8], right[kElements * 8], three[8];
  size_t bytes = 0;
  ncclRedOp_t times_three;
  put(type, 3, three);
  for (size_t i = 0; i < kElements; ++i) {
    size_t at = bytes;
    bytes += put(type, (int)(i % 4), in + at);
    put(type, 3 * here->size * (int)(i % 4), right + at);
  }
  device_pointer buffer = buffer_of(in, bytes);
  expect("create",
         ncclRedOpCreatePreMulSum(&times_three, three, (ncclDataType_t)type, ncclScalarHostImmediate,
                                  here->comm),
         ncclSuccess);
  CALL(ncclAllReduce, bytes, (void*)buffer, (void*)buffer, kElements, (ncclDataType_t)type, times_three,
       here->comm, here->stream);
  expect("ncclRedOpDestroy", ncclRedOpDestroy(times_three, here->comm), ncclSuccess);
  synchronize(here->stream);
  to_host(in, buffer, bytes);
  check(memcmp(in, right, bytes) == 0, "a sum of inputs that are multiplied first");
}

void types_and_operations(struct here* here) {
  for (int type = 0; type < kTypes; ++type) {
    for (int op = 0; op < kOps; ++op) one_type(here, type, op, kElements);
    own_operation(here, type);
  }
}

/* Averages of few ranks alone: of more, their sums are no numbers of eight bits. */
void many_of_each_type(struct here* here) {
  for (int type = 0; type < kTypes; ++type)
    for (int op = 0; op < kOps; ++op)
      if (op != ncclAvg || type == ncclFloat32) one_type(here, type, op, 70001);
}

/* ---- order ---- */

/* A call behind a kernel that does not end returns at once, and nothing has happened yet. */
void streams(struct here* here) {
  enum { kStreams = 4, kCount = 9000 };
  struct obstacle obstacle;
  stream_t side[kStreams];
  device_pointer buffer[kStreams];
  double *in = values(here->rank, kCount), *out = values(-1, kCount);
  for (int s = 0; s < kStreams; ++s) {
    side[s] = new_stream();
    buffer[s] = buffer_of(in, kCount * sizeof *in);
  }
  put_obstacle(&obstacle, side[0]);
  for (int s = 0; s < kStreams; ++s)
    CALL(ncclAllReduce, kCount * sizeof *in, (void*)buffer[s], (void*)buffer[s], kCount, ncclFloat64, ncclSum,
         here->comm, side[s]);
  check(!is_done(side[0]), "a call that did not wait for its stream");
  to_host(out, buffer[0], kCount * sizeof *in);
  check(memcmp(in, out, kCount * sizeof *in) == 0, "a result before its time");
  remove_obstacle(&obstacle);
  for (int s = 0; s < kStreams; ++s) {
    synchronize(side[s]);
    to_host(out, buffer[s], kCount * sizeof *in);
    for (size_t i = 0; i < kCount; ++i) check(out[i] == sum_of(here, i), "a sum on another stream");
  }
  free(in);
  free(out);
}

/* The same buffer twice, so that order matters; the destruction of an operation behind its use. */
void groups(struct here* here) {
  enum { kCount = 300 };
  double *in = values(here->rank, kCount), *out = values(-1, kCount), half = 0.5;
  device_pointer a = buffer_of(in, kCount * sizeof *in), b = buffer_of(in, kCount * sizeof *in);
  ncclRedOp_t halves;
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  CALL(ncclAllReduce, kCount * 8, (void*)a, (void*)a, kCount, ncclFloat64, ncclSum, here->comm, here->stream);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  expect("create", ncclRedOpCreatePreMulSum(&halves, &half, ncclFloat64, ncclScalarHostImmediate, here->comm),
         ncclSuccess);
  CALL(ncclAllReduce, kCount * 8, (void*)b, (void*)b, kCount, ncclFloat64, halves, here->comm, here->stream);
  expect("ncclRedOpDestroy", ncclRedOpDestroy(halves, here->comm), ncclSuccess);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  CALL(ncclAllReduce, kCount * 8, (void*)a, (void*)a, kCount, ncclFloat64, ncclAvg, here->comm, here->stream);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  synchronize(here->stream);
  to_host(out, a, kCount * 8);
  for (size_t i = 0; i < kCount; ++i) check(out[i] == sum_of(here, i), "a sum and its average in a group");
  to_host(out, b, kCount * 8);
  for (size_t i = 0; i < kCount; ++i) check(out[i] == sum_of(here, i) / 2, "half a sum in a group");
  free(in);
  free(out);
}
