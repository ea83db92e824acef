/* All that is no all-reduce. Every rank's block has the values of its own. */
#include <stdlib.h>

#include "tests/nccl/stream/stream.h"

enum { kMostRanks = 16 };

/* `blocks` blocks of n values as rank `rank` brings them: no two blocks alike. */
static double* blocks_of(int rank, int blocks, size_t n) {
  double* made = malloc(((size_t)blocks * n + 1) * sizeof *made);
  for (int b = 0; b < blocks; ++b)
    for (size_t i = 0; i < n; ++i) made[(size_t)b * n + i] = value(rank, i) + 4096 * b;
  return made;
}

static double* fetched(struct here* here, device_pointer from, size_t count) {
  double* got = malloc((count + 1) * sizeof *got);
  synchronize(here->stream);
  to_host(got, from, count * sizeof *got);
  return got;
}

static double reduced(const struct here* here, int block, size_t i) {
  double sum = 0;
  for (int r = 0; r < here->size; ++r) sum += value(r, i) + 4096 * block;
  return sum;
}

static void rooted(struct here* here, size_t n, int root) {
  int me = here->rank, all = here->size;
  size_t bytes = n * sizeof(double), total = bytes * (size_t)all;
  double *mine = blocks_of(me, all, n), *got;
  device_pointer in = buffer_of(mine, total), out = new_buffer(total), place = buffer_of(mine, total);
  CALL(ncclBroadcast, bytes, (void*)in, (void*)out, n, ncclFloat64, root, here->comm, here->stream);
  got = fetched(here, out, n);
  for (size_t i = 0; i < n; ++i) check(got[i] == value(root, i), "a broadcast value");
  free(got);
  CALL(ncclBcast, bytes, (void*)place, n, ncclFloat64, root, here->comm, here->stream);
  got = fetched(here, place, n);
  for (size_t i = 0; i < n; ++i) check(got[i] == value(root, i), "a value broadcast in place");
  free(got);
  CALL(ncclReduce, bytes, (void*)in, me == root ? (void*)out : NULL, n, ncclFloat64, ncclSum, root,
       here->comm, here->stream);
  got = fetched(here, out, n);
  for (size_t i = 0; i < n; ++i) check(me != root || got[i] == reduced(here, 0, i), "a reduced sum");
  free(got);
  CALL(ncclGather, total, (void*)in, (void*)out, n, ncclFloat64, root, here->comm, here->stream);
  got = fetched(here, out, n * (size_t)all);
  for (int r = 0; r < all; ++r)
    for (size_t i = 0; i < n; ++i)
      check(me != root || got[(size_t)r * n + i] == value(r, i), "a gathered value");
  free(got);
  CALL(ncclScatter, total, (void*)in, (void*)out, n, ncclFloat64, root, here->comm, here->stream);
  got = fetched(here, out, n);
  for (size_t i = 0; i < n; ++i) check(got[i] == value(root, i) + 4096 * me, "a scattered value");
  free(got);
  free(mine);
}

static void all_at_once(struct here* here, size_t n) {
  int me = here->rank, all = here->size;
  size_t bytes = n * sizeof(double), total = bytes * (size_t)all;
  double *mine = blocks_of(me, all, n), *got;
  device_pointer in = buffer_of(mine, total), out = new_buffer(total);
  CALL(ncclAllGather, total, (void*)in, (void*)out, n, ncclFloat64, here->comm, here->stream);
  got = fetched(here, out, n * (size_t)all);
  for (int r = 0; r < all; ++r)
    for (size_t i = 0; i < n; ++i) check(got[(size_t)r * n + i] == value(r, i), "a value gathered by all");
  free(got);
  CALL(ncclReduceScatter, total, (void*)in, (void*)out, n, ncclFloat64, ncclAvg, here->comm, here->stream);
  got = fetched(here, out, n);
  for (size_t i = 0; i < n; ++i) check(got[i] == reduced(here, me, i) / all, "a scattered average");
  free(got);
  CALL(ncclAlltoAll, total, (void*)in, (void*)out, n, ncclFloat64, here->comm, here->stream);
  got = fetched(here, out, n * (size_t)all);
  for (int r = 0; r < all; ++r)
    for (size_t i = 0; i < n; ++i)
      check(got[(size_t)r * n + i] == value(r, i) + 4096 * me, "an exchanged value");
  free(got);
  /* In place: the own block of the whole. */
  device_pointer own = in + (size_t)me * bytes;
  CALL(ncclReduceScatter, total, (void*)in, (void*)own, n, ncclFloat64, ncclSum, here->comm, here->stream);
  CALL(ncclAllGather, total, (void*)own, (void*)in, n, ncclFloat64, here->comm, here->stream);
  got = fetched(here, in, n * (size_t)all);
  for (int b = 0; b < all; ++b)
    for (size_t i = 0; i < n; ++i) check(got[(size_t)b * n + i] == reduced(here, b, i), "a sum by shares");
  free(got);
  free(mine);
}

/* What only moves may be of any type. */
void eight_bit_floats(struct here* here) {
  unsigned char number = (unsigned char)here->rank, got[kMostRanks];
  device_pointer in = buffer_of(&number, 1), out = new_buffer(kMostRanks);
  CALL(ncclAllGather, (size_t)here->size, (void*)in, (void*)out, 1, (ncclDataType_t)11, here->comm,
       here->stream);
  synchronize(here->stream);
  to_host(got, out, (size_t)here->size);
  for (int r = 0; r < here->size; ++r) check(got[r] == r, "an eight-bit float");
}

void collectives(struct here* here, size_t most_elements) {
  size_t counts[] = {0, 1, 1003, most_elements};
  for (int c = 0; c < 4; ++c) {
    for (int root = 0; root < here->size; ++root) rooted(here, counts[c], root);
    all_at_once(here, counts[c]);
  }
}

/* Everybody to everybody, itself too, each in its own order: a subgroup for whoever takes them as they come.
 */
static void everybody(struct here* here, size_t n) {
  int me = here->rank, all = here->size;
  size_t bytes = n * sizeof(double);
  double *mine = blocks_of(me, all, n), *got;
  device_pointer in = buffer_of(mine, bytes * (size_t)all), out = new_buffer(bytes * (size_t)all);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  for (int step = 0; step < all; ++step) {
    int to = (me + step) % all, from = (me + step) % all;
    CALL(ncclSend, bytes, (void*)(in + (size_t)to * bytes), n, ncclFloat64, to, here->comm, here->stream);
    CALL(ncclRecv, bytes, (void*)(out + (size_t)from * bytes), n, ncclFloat64, from, here->comm,
         here->stream);
  }
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  got = fetched(here, out, n * (size_t)all);
  for (int r = 0; r < all; ++r)
    for (size_t i = 0; i < n; ++i)
      check(got[(size_t)r * n + i] == value(r, i) + 4096 * me, "a received value");
  free(got);
  free(mine);
}

/* A group where each rank has its message in another place beside a collective; one to itself is empty. */
static void beside_a_collective(struct here* here, size_t n) {
  int last = here->size - 1, sends = here->rank == 0, receives = here->rank == last;
  double* mine = blocks_of(here->rank, 1, n);
  device_pointer a = buffer_of(mine, n * sizeof *mine), sum = buffer_of(mine, n * sizeof *mine);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  CALL(ncclSend, 0, NULL, 0, ncclFloat64, here->rank, here->comm, here->stream);
  CALL(ncclRecv, 0, NULL, 0, ncclFloat64, here->rank, here->comm, here->stream);
  if (receives && last > 0) CALL(ncclRecv, n * 8, (void*)a, n, ncclFloat64, 0, here->comm, here->stream);
  CALL(ncclAllReduce, n * 8, (void*)sum, (void*)sum, n, ncclFloat64, ncclMax, here->comm, here->stream);
  if (sends && last > 0) CALL(ncclSend, n * 8, (void*)a, n, ncclFloat64, last, here->comm, here->stream);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  double *got = fetched(here, a, n), *most = fetched(here, sum, n);
  for (size_t i = 0; i < n; ++i) {
    check(!receives || got[i] == value(0, i), "a value from the first rank, beside a collective");
    double expected = value(0, i);
    for (int r = 1; r <= last; ++r) expected = value(r, i) > expected ? value(r, i) : expected;
    check(most[i] == expected, "the largest value, beside a message");
  }
  free(got);
  free(most);
  free(mine);
}

/* From the first rank to the last, without the others and without a group. */
static void along(struct here* here, size_t n) {
  double* mine = blocks_of(here->rank, 1, n);
  device_pointer a = buffer_of(mine, n * sizeof *mine);
  int last = here->size - 1;
  if (last == 0 || (here->rank != 0 && here->rank != last)) return free(mine);
  if (here->rank == 0)
    CALL(ncclSend, n * 8, (void*)a, n, ncclFloat64, last, here->comm, here->stream);
  else
    CALL(ncclRecv, n * 8, (void*)a, n, ncclFloat64, 0, here->comm, here->stream);
  double* got = fetched(here, a, n);
  for (size_t i = 0; i < n; ++i) check(got[i] == value(0, i), "a value from the first rank");
  free(got);
  free(mine);
}

void messages(struct here* here) {
  size_t counts[] = {1, 1003, 700001};
  for (int c = 0; c < 3; ++c) {
    everybody(here, counts[c]);
    along(here, counts[c]);
    beside_a_collective(here, counts[c]);
  }
}
