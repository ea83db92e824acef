/* Elements of derived types of more bytes than an int counts, beside many of a type that MPI names: a
 * broadcast without gaps, and one from every second part of a buffer, which has to be packed. The buffers are
 * a little memory again and again, so that this needs no more than what somebody packs. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A part is 16 MiB of doubles. */
enum { kPart = 1 << 21, kWhole = 136, kEverySecond = 72, kMarks = 64 };
#define PART_BYTES ((size_t)kPart * sizeof(double))

static int me;
static long failures;

/* The same `distinct` parts so often that there are `parts`. */
static double* parts_of(int parts, int distinct) {
  const int file = memfd_create("parts", 0);
  if (file < 0 || ftruncate(file, (off_t)(distinct * PART_BYTES)) != 0) return NULL;
  char* all = mmap(NULL, parts * PART_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < parts; ++i)
    if (mmap(all + i * PART_BYTES, PART_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
             (off_t)(i % distinct * PART_BYTES)) == MAP_FAILED)
      return NULL;
  close(file);
  return (double*)all;
}

static void mark(double* part, double seed) {
  for (int i = 0; i < kMarks; ++i) part[i * (kPart / kMarks)] = seed + i;
}

static void check(const char* what, const double* part, double seed) {
  for (int i = 0; i < kMarks; ++i)
    if (part[i * (kPart / kMarks)] != seed + i && failures++ < 10)
      fprintf(stderr, "check: %s, rank %d, mark %d: %g, not %g\n", what, me, i, part[i * (kPart / kMarks)],
              seed + i);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Datatype whole, every_second;
  MPI_Type_contiguous(kWhole * kPart, MPI_DOUBLE, &whole); /* 2.1 GiB */
  MPI_Type_commit(&whole);
  MPI_Type_vector(kEverySecond, kPart, 2 * kPart, MPI_DOUBLE, &every_second); /* 1.1 of 2.2 GiB */
  MPI_Type_commit(&every_second);
  double* data = parts_of(2 * kEverySecond, 2);
  if (!data) {
    perror("memory");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (me == 0) mark(data, 1), mark(data + kPart, 1);
  if (me == 0)
    MPI_Bcast(data, kWhole * kPart, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  else
    MPI_Bcast(data, 1, whole, 0, MPI_COMM_WORLD);
  check("without gaps", data, 1);
  mark(data, me == 0 ? 2 : 3), mark(data + kPart, 4);
  if (me == 0)
    MPI_Bcast(data, 1, every_second, 0, MPI_COMM_WORLD);
  else
    MPI_Bcast(data, kEverySecond * kPart, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  check("packed", data, 2), check("packed", data + kPart, me == 0 ? 4 : 2);
  mark(data, me == 0 ? 5 : 6), mark(data + kPart, me == 0 ? 5 : 7);
  if (me == 0)
    MPI_Bcast(data, kEverySecond * kPart, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  else
    MPI_Bcast(data, 1, every_second, 0, MPI_COMM_WORLD);
  check("unpacked", data, 5), check("between", data + kPart, me == 0 ? 5 : 7);
  if (me == 0) printf("check: %ld failures\n", failures);
  MPI_Type_free(&whole);
  MPI_Type_free(&every_second);
  MPI_Finalize();
  return failures ? 1 : 0;
}
