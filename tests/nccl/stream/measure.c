#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/nccl/stream/stream.h"

/* ---- sums against the same in float64 ---- */

static double of_half(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double magnitude = exponent ? ldexp(1024 + (bits & 1023), exponent - 25) : ldexp(bits & 1023, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

static double number_at(const void* at, int type, size_t i) {
  uint16_t bits;
  float wide;
  memcpy(&bits, (const char*)at + 2 * i, 2);
  if (type == kHalf) return of_half(bits);
  uint32_t brain = (uint32_t)bits << 16;
  memcpy(&wide, &brain, 4);
  if (type == ncclFloat32) memcpy(&wide, (const char*)at + 4 * i, 4);
  return wide;
}

/* The number of rank r at i: a float with few enough bits to be one of any type. */
static void put_number(void* at, int type, size_t i, int rank) {
  int whole = (int)((i * 37 + (size_t)rank * 101) % 255) - 127, shift = (int)(i % 5) - 6;
  float wide = ldexpf((float)whole, shift);
  uint32_t bits;
  memcpy(&bits, &wide, 4);
  uint16_t half = 0;
  if (type == ncclFloat32) {
    memcpy((char*)at + 4 * i, &wide, 4);
    return;
  }
  if (type == kBrain) half = (uint16_t)(bits >> 16);
  if (type == kHalf && whole != 0)
    half = (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023));
  memcpy((char*)at + 2 * i, &half, 2);
}

static void against_float64(struct here* here, int type, double epsilon) {
  enum { kCount = 100003 };
  size_t bytes = kCount * (size_t)(type == ncclFloat32 ? 4 : 2);
  void *mine = malloc(bytes), *other = malloc(bytes);
  double worst = 0;
  for (size_t i = 0; i < kCount; ++i) put_number(mine, type, i, here->rank);
  device_pointer at = buffer_of(mine, bytes);
  CALL(ncclAllReduce, bytes, (void*)at, (void*)at, kCount, (ncclDataType_t)type, ncclSum, here->comm,
       here->stream);
  synchronize(here->stream);
  to_host(mine, at, bytes);
  for (size_t i = 0; i < kCount; ++i) {
    double sum = 0, size = 0;
    for (int r = 0; r < here->size; ++r) {
      put_number(other, type, i, r);
      sum += number_at(other, type, i);
      size += fabs(number_at(other, type, i));
    }
    double error = fabs(number_at(mine, type, i) - sum) - epsilon * fabs(sum);
    double bound = here->size * ldexp(1, -24) * size;
    check(error <= bound, "a sum far from the one in float64");
    if (fabs(sum) > 0) worst = fmax(worst, fabs(number_at(mine, type, i) - sum) / fabs(sum));
  }
  if (here->rank == 0) printf("accuracy: type %d: worst relative error %.2e\n", type, worst);
  free(mine);
  free(other);
}

void accuracy(struct here* here) {
  against_float64(here, kHalf, ldexp(1, -11));
  against_float64(here, kBrain, ldexp(1, -8));
  against_float64(here, ncclFloat32, 0);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}

/* ---- time ---- */

static double now_s(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Seconds per all-reduce, and of these what the caller was kept: the better of two turns after one that warms
 * up. */
struct time_of_sum {
  double done, enqueued;
};

static struct time_of_sum time_sums(struct here* here, device_pointer from, device_pointer to, size_t count,
                                    int calls) {
  struct time_of_sum best = {1e9, 1e9};
  for (int turn = 0; turn < 3; ++turn) {
    double began = now_s();
    for (int i = 0; i < calls; ++i)
      CALL(ncclAllReduce, 4 * count, (void*)from, (void*)to, count, ncclFloat32, ncclSum, here->comm,
           here->stream);
    double enqueued = (now_s() - began) / calls;
    synchronize(here->stream);
    double done = (now_s() - began) / calls;
    if (turn == 0) continue;
    best.done = fmin(best.done, done);
    best.enqueued = fmin(best.enqueued, enqueued);
  }
  return best;
}

/* Milliseconds of one copy of each kind, by a rank that has the GPU to itself. */
struct copies {
  double on_device, to_host, to_device;
};

static struct copies time_copies(struct here* here, device_pointer to, device_pointer from, size_t bytes) {
  enum { kTimes = 20 };
  void* pinned = pinned_buffer(bytes);
  double at[4];
  at[0] = now_s();
  for (int i = 0; i < kTimes; ++i) copy_on_device(to, from, bytes, here->stream);
  synchronize(here->stream);
  at[1] = now_s();
  for (int i = 0; i < kTimes; ++i) copy_to_host(pinned, from, bytes, here->stream);
  synchronize(here->stream);
  at[2] = now_s();
  for (int i = 0; i < kTimes; ++i) copy_to_device(to, pinned, bytes, here->stream);
  synchronize(here->stream);
  at[3] = now_s();
  return (struct copies){1e3 * (at[1] - at[0]) / kTimes, 1e3 * (at[2] - at[1]) / kTimes,
                         1e3 * (at[3] - at[2]) / kTimes};
}

static void measure_one(struct here* here, device_pointer from, device_pointer to, size_t bytes) {
  int calls = bytes <= 1 << 20 ? 50 : bytes <= 1 << 28 ? 10 : 3;
  struct time_of_sum took = time_sums(here, from, to, bytes / 4, calls);
  if (here->rank == 0)
    printf("measured: %d ranks, %zu bytes: %.4f ms, of which the caller waits %.1f us\n", here->size, bytes,
           1e3 * took.done, 1e6 * took.enqueued);
}

static size_t bytes_of(const char* variable, size_t otherwise) {
  const char* text = getenv(variable);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

/* From DDL_TEST_FROM (1 KiB) to DDL_TEST_BYTES (256 MiB) of float32 per call; what one element takes; and
 * what plain copies take. A copy on the device moves 2 N bytes, an all-reduce there (3 + p) N for each of p
 * ranks: see core/device/device_calls.hpp. One on the host brings N of each rank over and back. */
void measure(struct here* here) {
  size_t most = bytes_of("DDL_TEST_BYTES", (size_t)256 << 20);
  device_pointer from = new_buffer(most), to = new_buffer(most);
  measure_one(here, from, to, 4);
  for (size_t bytes = bytes_of("DDL_TEST_FROM", 1024); bytes <= most; bytes *= 4)
    measure_one(here, from, to, bytes);
  if (here->rank == 0) {
    struct copies copies = time_copies(here, to, from, most);
    double each_way = copies.to_host > copies.to_device ? copies.to_host : copies.to_device;
    printf("measured: a copy of %zu bytes: %.3f ms on the GPU, %.3f ms to the host, %.3f ms back\n", most,
           copies.on_device, copies.to_host, copies.to_device);
    printf("measured: bytes of an all-reduce on the GPU %.3f ms, on the host %.3f ms\n",
           0.5 * (3 + here->size) * here->size * copies.on_device, here->size * each_way);
  }
  CALL(ncclAllReduce, 4, (void*)from, (void*)to, 1, ncclFloat32, ncclSum, here->comm, here->stream);
  synchronize(here->stream);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}

/* NCCL's own function in this process, behind all that stands before it. DDL_TEST_ORIGINAL says where: an
 * offset in hexadecimal digits, a space and the path of the library. */
typedef ncclResult_t all_reduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                stream_t);
static all_reduce* original(void) {
  const char* where = getenv("DDL_TEST_ORIGINAL");
  char *path = NULL, line[4096];
  unsigned long offset = where ? strtoul(where, &path, 16) : 0, base = 0;
  FILE* maps = where ? fopen("/proc/self/maps", "r") : NULL;
  while (!base && maps && fgets(line, sizeof line, maps))
    if (strstr(line, path + 1)) base = strtoul(line, NULL, 16);
  if (maps) fclose(maps);
  return base ? (all_reduce*)(uintptr_t)(base + offset) : NULL;
}

static double time_one_rank(struct here* here, all_reduce* function, void* from, void* to, size_t count,
                            int calls) {
  double began = now_s();
  for (int i = 0; i < calls; ++i)
    expect("ncclAllReduce", function(from, to, count, ncclFloat32, ncclSum, here->comm, here->stream),
           ncclSuccess);
  synchronize(here->stream);
  return 1e6 * (now_s() - began) / calls;
}

static int by_size(const void* a, const void* b) {
  double difference = *(const double*)a - *(const double*)b;
  return (difference > 0) - (difference < 0);
}

/* What a call of one rank costs, whose communicator is NCCL's: by way of us and without, in turn in one
 * process, because processes differ by more. Medians of turns; the ratio is that of neighbours. */
void overhead(struct here* here) {
  enum { kBytes = 64 << 20, kTurns = 101 };
  void *from = (void*)new_buffer(kBytes), *to = (void*)new_buffer(kBytes);
  all_reduce* alone = original();
  check(alone != NULL, "no DDL_TEST_ORIGINAL");
  for (size_t bytes = 4; bytes <= kBytes; bytes *= 4096) {
    double with_us[kTurns], without[kTurns], ratio[kTurns];
    for (int turn = -5; turn < kTurns; ++turn) {
      double took[2];
      for (int half = 0; half < 2; ++half) {
        int ours = (turn + half) & 1;
        took[ours] = time_one_rank(here, ours ? ncclAllReduce : alone, from, to, bytes / 4,
                                   bytes > 1 << 20 ? 40 : 500);
      }
      if (turn < 0) continue;
      with_us[turn] = took[1];
      without[turn] = took[0];
      ratio[turn] = took[1] / took[0];
    }
    qsort(with_us, kTurns, sizeof *with_us, by_size);
    qsort(without, kTurns, sizeof *without, by_size);
    qsort(ratio, kTurns, sizeof *ratio, by_size);
    printf(
        "overhead: %zu bytes: %.3f us by way of us, %.3f us without, ratio %.4f (quartiles %.4f and %.4f)\n",
        bytes, with_us[kTurns / 2], without[kTurns / 2], ratio[kTurns / 2], ratio[kTurns / 4],
        ratio[3 * kTurns / 4]);
  }
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}
