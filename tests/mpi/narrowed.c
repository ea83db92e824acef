/* Float all-reduces that travel narrower than they are in memory: near the sum, the same bits on all ranks;
 * small ones and integers exact. An ordinary MPI program: narrowed TOLERANCE [COUNT], the former relative to
 * the sum of the magnitudes, the latter the elements of large ones. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSmall = 1000 };

static int rank, ranks, failures, large = 200003;

/* Needs 24 bits, so that every narrower type rounds it. */
static float share(int from, int i) {
  const uint64_t mixed = ((uint64_t)from * 7919 + (uint64_t)i * 104729) % 16777213;
  return (float)mixed / 16777216.0f + 0.5f;
}

static void reduce(const void* in, void* out, int count, MPI_Datatype type, int is_blocking) {
  MPI_Request request;
  if (is_blocking) {
    MPI_Allreduce(in, out, count, type, MPI_SUM, MPI_COMM_WORLD);
    return;
  }
  MPI_Iallreduce(in, out, count, type, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void expect_same_bits(const void* data, size_t bytes, const char* what) {
  uint64_t hash = 1469598103934665603u, least, most;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ ((const unsigned char*)data)[i]) * 1099511628211u;
  MPI_Allreduce(&hash, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&hash, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (least != most) ++failures, fprintf(stderr, "rank %d: other bits on another rank: %s\n", rank, what);
}

/* Off by at most that part of the sum; more than 2^-20 of it somewhere, where anything was rounded. */
static void expect_sums(const double* sums, int count, double tolerance, const char* what) {
  int is_rounded = 0;
  for (int i = 0; i < count; ++i) {
    double exact = 0;
    for (int from = 0; from < ranks; ++from) exact += share(from, i);
    const double off = fabs(sums[i] - exact);
    is_rounded |= off > exact * 0x1p-20;
    if (off <= exact * fmax(tolerance, 0x1p-20)) continue;
    if (++failures < 5)
      fprintf(stderr, "rank %d: %s, element %d is %g and not %g\n", rank, what, i, sums[i], exact);
  }
  if (is_rounded != (tolerance > 0)) ++failures, fprintf(stderr, "%s: rounded: %d\n", what, is_rounded);
}

static void try_floats(int count, double tolerance, int is_blocking) {
  float *in = malloc(sizeof(float) * (size_t)count), *out = malloc(sizeof(float) * (size_t)count);
  double *wide = malloc(sizeof(double) * (size_t)count), *sums = malloc(sizeof(double) * (size_t)count);
  for (int i = 0; i < count; ++i) wide[i] = in[i] = share(rank, i);
  reduce(in, out, count, MPI_FLOAT, is_blocking);
  expect_same_bits(out, sizeof(float) * (size_t)count, "float");
  for (int i = 0; i < count; ++i) sums[i] = out[i];
  expect_sums(sums, count, tolerance, "float");
  reduce(wide, sums, count, MPI_DOUBLE, is_blocking);
  expect_same_bits(sums, sizeof(double) * (size_t)count, "double");
  expect_sums(sums, count, tolerance, "double");
  free(in), free(out), free(wide), free(sums);
}

static void try_integers(void) {
  int32_t *in = malloc(sizeof(int32_t) * (size_t)large), *out = malloc(sizeof(int32_t) * (size_t)large);
  for (int i = 0; i < large; ++i) in[i] = 16777217 + i + rank;
  reduce(in, out, large, MPI_INT32_T, 1);
  for (int i = 0; i < large && failures == 0; ++i)
    if (out[i] != ranks * (16777217 + i) + ranks * (ranks - 1) / 2)
      ++failures, fprintf(stderr, "integers changed\n");
  free(in), free(out);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const double tolerance = argc > 1 ? atof(argv[1]) : 0;
  if (argc > 2) large = atoi(argv[2]);
  for (int is_blocking = 0; is_blocking < 2; ++is_blocking) {
    try_floats(large, tolerance, is_blocking);
    try_floats(kSmall, 0, is_blocking);
  }
  try_integers();
  if (rank == 0 && failures == 0) printf("all sums are right\n");
  MPI_Finalize();
  return failures != 0;
}
