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

static double per_sum(struct here* here, device_pointer from, device_pointer to, size_t count, int calls) {
  double took = 0;
  for (int turn = 0; turn < 2; ++turn) { /* the first warms up */
    double began = now_s();
    for (int i = 0; i < calls; ++i)
      CALL(ncclAllReduce, 4 * count, (void*)from, (void*)to, count, ncclFloat32, ncclSum, here->comm,
           here->stream);
    synchronize(here->stream);
    took = (now_s() - began) / calls;
  }
  return took;
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

/* DDL_TEST_BYTES, 256 MiB, of float32 per call; what one element takes, which is two hand-overs between the
 * ranks; and what plain copies take. A copy on the device moves 2 N bytes, an all-reduce there 6 N for each
 * rank: see core/device/device_calls.hpp. One on the host brings N of each rank over and back. */
void measure(struct here* here) {
  const char* text = getenv("DDL_TEST_BYTES");
  size_t bytes = text ? strtoull(text, NULL, 10) : (size_t)256 << 20;
  device_pointer from = new_buffer(bytes), to = new_buffer(bytes);
  double large = 1e3 * per_sum(here, from, to, bytes / 4, 20), small = 1e3 * per_sum(here, from, to, 1, 200);
  if (here->rank == 0) {
    struct copies copies = time_copies(here, to, from, bytes);
    double each_way = copies.to_host > copies.to_device ? copies.to_host : copies.to_device;
    printf("measured: %d ranks, %zu bytes: %.3f ms per all-reduce; of 4 bytes: %.3f ms\n", here->size, bytes,
           large, small);
    printf("measured: a copy of as much: %.3f ms on the GPU, %.3f ms to the host, %.3f ms back\n",
           copies.on_device, copies.to_host, copies.to_device);
    printf("measured: bound on the GPU, with four hand-overs: %.3f ms; by way of the host: %.3f ms\n",
           3 * here->size * copies.on_device + 2 * small, here->size * each_way);
  }
  CALL(ncclAllReduce, 4, (void*)from, (void*)to, 1, ncclFloat32, ncclSum, here->comm, here->stream);
  synchronize(here->stream);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}

/* What a call costs the host, and what is done by the end: for one rank, whose communicator is NCCL's. */
void overhead(struct here* here) {
  enum { kBytes = 64 << 20 };
  device_pointer from = new_buffer(kBytes), to = new_buffer(kBytes);
  printf("overhead: %.4f us per all-reduce of 4 bytes, %.2f us of 64 MiB\n",
         1e6 * per_sum(here, from, to, 1, 20000), 1e6 * per_sum(here, from, to, kBytes / 4, 200));
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}
