/* Reductions that an engine has no kernels for: operations of the program's own, pairs, complex numbers, long
 * double. The program's functions are called by its own thread alone, one at a time, and with the operands in
 * their places. */
#include <complex.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long cases, failures;
static int rank, size;
static atomic_int inside;
static long calls;

static void fail(const char* what, int i, double got, double want) {
  if (failures++ < 10)
    fprintf(stderr, "check: rank %d, %s, element %d: %g, not %g\n", rank, what, i, got, want);
}

static void enter(void) {
  ++calls;
  if (atomic_fetch_add(&inside, 1)) fail("two calls of a function at once", 0, 1, 0);
  if (syscall(SYS_gettid) != getpid()) fail("a function called by another thread", 0, 1, 0);
}

/* The one of larger size, whatever its sign; what is given is never written. */
static void by_size(void* in, void* inout, int* n, MPI_Datatype* type) {
  enter();
  const int* a = in;
  int* b = inout;
  if (*type != MPI_INT) fail("another type", 0, 0, 1);
  for (int i = 0; i < *n; ++i)
    if (abs(a[i]) > abs(b[i])) b[i] = a[i];
  atomic_fetch_sub(&inside, 1);
}

static void add(void* in, void* inout, int* n, MPI_Datatype* type) {
  enter();
  (void)type;
  for (int i = 0; i < *n; ++i) ((double*)inout)[i] += ((double*)in)[i];
  atomic_fetch_sub(&inside, 1);
}

static int signed_value(int from, int i) {
  return (from % 2 ? -1 : 1) * ((from * 17 + i * 5) % 101 * 10 + from);
}

static int largest(int i) {
  int best = signed_value(0, i);
  for (int r = 1; r < size; ++r)
    if (abs(signed_value(r, i)) > abs(best)) best = signed_value(r, i);
  return best;
}

static const int kCounts[] = {1, 2, 7, 300, 4099, 70001};
enum { kSizes = sizeof kCounts / sizeof *kCounts };

static void users(MPI_Op op, MPI_Op sum) {
  for (int c = 0; c < kSizes; ++c) {
    const int n = kCounts[c], root = c % size;
    int *in = malloc((size_t)n * sizeof(int)), *out = malloc((size_t)n * sizeof(int));
    for (int i = 0; i < n; ++i) in[i] = signed_value(rank, i), out[i] = 0;
    MPI_Allreduce(in, out, n, MPI_INT, op, MPI_COMM_WORLD);
    for (int i = 0; i < n; ++i)
      if (out[i] != largest(i) || in[i] != signed_value(rank, i))
        return fail("all-reduce", i, out[i], largest(i));
    MPI_Reduce(rank == root ? MPI_IN_PLACE : in, in, n, MPI_INT, op, root, MPI_COMM_WORLD);
    for (int i = 0; i < n && rank == root; ++i)
      if (in[i] != largest(i)) return fail("reduce", i, in[i], largest(i));
    double* all = malloc((size_t)n * (size_t)size * sizeof(double));
    double* part = malloc((size_t)n * sizeof(double));
    for (int i = 0; i < n * size; ++i) all[i] = rank + i % 11;
    MPI_Reduce_scatter_block(all, part, n, MPI_DOUBLE, sum, MPI_COMM_WORLD);
    for (int i = 0; i < n; ++i) {
      const double want = size * ((rank * n + i) % 11) + size * (size - 1) / 2.0;
      if (part[i] != want) return fail("reduce-scatter", i, part[i], want);
    }
    free(in);
    free(out);
    free(all);
    free(part);
    cases += 3;
  }
}

static void add_ints(void* in, void* inout, int* n, MPI_Datatype* type) {
  enter();
  (void)type;
  for (int i = 0; i < *n; ++i) ((int*)inout)[i] += ((int*)in)[i];
  atomic_fetch_sub(&inside, 1);
}

/* Freed ones come again as other operations with the same handle, of calls that are otherwise the same; on
 * rank 0 with another one. Some do not commute. */
static void freed_and_made_again(void) {
  int in[3], out[3];
  MPI_Op before = MPI_OP_NULL;
  for (int round = 0; round < 8; ++round) {
    const int adds = round % 2;
    MPI_Op op;
    MPI_Op_create(adds ? add_ints : by_size, round % 4 < 3, &op);
    if (before != MPI_OP_NULL) MPI_Op_free(&before);
    for (int call = 0; call < 6; ++call)
      for (int reduces = 0; reduces < 2; ++reduces) {
        for (int i = 0; i < 3; ++i) in[i] = signed_value(rank, i + call), out[i] = 0;
        if (reduces)
          MPI_Reduce(in, out, 3, MPI_INT, op, 0, MPI_COMM_WORLD);
        else
          MPI_Allreduce(in, out, 3, MPI_INT, op, MPI_COMM_WORLD);
        ++cases;
        for (int i = 0; i < 3 && (!reduces || rank == 0); ++i) {
          int want = 0;
          for (int r = 0; r < size; ++r) want += signed_value(r, i + call);
          if (!adds) want = largest(i + call);
          if (out[i] != want) return fail("an operation made again", i, out[i], want);
        }
      }
    if (rank == 0)
      before = op;
    else
      MPI_Op_free(&op);
  }
  if (before != MPI_OP_NULL) MPI_Op_free(&before);
}

/* Elements of several numbers in a row, as C++ libraries send their own types: here two ints, of which the
 * one with the larger first number stays whole. */
static MPI_Datatype whole;
static void by_first(void* in, void* inout, int* n, MPI_Datatype* type) {
  enter();
  const int* a = in;
  int* b = inout;
  if (*type != whole) fail("a type that the program did not name", 0, 0, 1);
  for (int i = 0; i < 2 * *n; i += 2)
    if (a[i] > b[i]) b[i] = a[i], b[i + 1] = a[i + 1];
  atomic_fetch_sub(&inside, 1);
}

static int first_of(int from, int i) { return (from * 7 + i * 3) % 11 * 100 + from; }
static int best_at(int i) {
  int best = 0;
  for (int r = 1; r < size; ++r)
    if (first_of(r, i) > first_of(best, i)) best = r;
  return best;
}

static void check_whole(const char* what, const int* out, int first, int n) {
  for (int i = 0; i < n; ++i) {
    const int best = best_at(first + i);
    if (out[2 * i] != first_of(best, first + i) || out[2 * i + 1] != -best)
      return fail(what, i, out[2 * i + 1], -best);
  }
  ++cases;
}

static void of_several_numbers(int ints) {
  MPI_Op op;
  MPI_Op_create(by_first, 1, &op);
  if (ints)
    MPI_Type_contiguous(2, MPI_INT, &whole);
  else
    MPI_Type_contiguous(8, MPI_BYTE, &whole);
  MPI_Type_commit(&whole);
  for (int c = 0; c < kSizes; ++c) {
    const int n = kCounts[c], root = c % size, all = n * size;
    int *in = malloc((size_t)all * 2 * sizeof(int)), *out = calloc((size_t)n * 2, sizeof(int));
    for (int i = 0; i < all; ++i) in[2 * i] = first_of(rank, i), in[2 * i + 1] = -rank;
    MPI_Allreduce(in, out, n, whole, op, MPI_COMM_WORLD);
    check_whole("all-reduce of several numbers", out, 0, n);
    memset(out, 0, (size_t)n * 2 * sizeof(int));
    MPI_Reduce(in, out, n, whole, op, root, MPI_COMM_WORLD);
    if (rank == root) check_whole("reduce of several numbers", out, 0, n);
    MPI_Reduce_scatter_block(in, out, n, whole, op, MPI_COMM_WORLD);
    check_whole("reduce-scatter of several numbers", out, rank * n, n);
    free(in);
    free(out);
  }
  MPI_Type_free(&whole);
  MPI_Op_free(&op);
}

/* Adds the ints of a type made now, of so many. */
static int ints_of_each;
static void add_each(void* in, void* inout, int* n, MPI_Datatype* type) {
  enter();
  if (*type != whole) fail("a type that the program did not name", 0, 0, 1);
  for (int i = 0; i < *n * ints_of_each; ++i) ((int*)inout)[i] += ((int*)in)[i];
  atomic_fetch_sub(&inside, 1);
}

/* Frees it in a callback of MPI_Comm_dup. */
static int free_whole(MPI_Comm comm, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)keyval, (void)extra, (void)in, (void)out;
  *flag = 0;
  return MPI_Type_free(&whole);
}

/* Freed types come again with the same handle and other elements, for calls that are otherwise the same; on
 * rank 0 with another handle. */
static void types_made_again(void) {
  enum { kMost = 4, kElements = 3 };
  int in[kElements * kMost], out[kElements * kMost];
  MPI_Datatype before = MPI_DATATYPE_NULL;
  MPI_Op op;
  MPI_Comm copy;
  int keyval;
  MPI_Op_create(add_each, 1, &op);
  MPI_Comm_create_keyval(free_whole, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
  for (int round = 0; round < 12; ++round) {
    ints_of_each = 1 << round % 3;
    MPI_Type_contiguous(ints_of_each, MPI_INT, &whole);
    MPI_Type_commit(&whole);
    if (before != MPI_DATATYPE_NULL) MPI_Type_free(&before);
    for (int call = 0; call < 6; ++call)
      for (int reduces = 0; reduces < 2; ++reduces) {
        for (int i = 0; i < kElements * kMost; ++i) in[i] = rank + i + call, out[i] = -1;
        if (reduces)
          MPI_Reduce(in, out, kElements, whole, op, 0, MPI_COMM_WORLD);
        else
          MPI_Allreduce(in, out, kElements, whole, op, MPI_COMM_WORLD);
        ++cases;
        for (int i = 0; i < kElements * kMost && (!reduces || rank == 0); ++i) {
          const int sum = size * (size - 1) / 2 + size * (i + call);
          const int want = i < kElements * ints_of_each ? sum : -1;
          if (out[i] != want) return fail("a type made again", i, out[i], want);
        }
      }
    if (rank == 0) {
      before = whole;
    } else if (round % 2) {
      MPI_Comm_dup(MPI_COMM_SELF, &copy);
      MPI_Comm_free(&copy);
    } else {
      MPI_Type_free(&whole);
    }
  }
  MPI_Comm_delete_attr(MPI_COMM_SELF, keyval);
  MPI_Comm_free_keyval(&keyval);
  if (before != MPI_DATATYPE_NULL) MPI_Type_free(&before);
  MPI_Op_free(&op);
}

/* The operation is freed before the calls are done, and the program does something else meanwhile. */
static void outstanding(void) {
  enum { kCalls = 12, kInts = 20000 };
  static int in[kCalls][kInts], out[kCalls][kInts];
  MPI_Request requests[kCalls];
  MPI_Op op;
  MPI_Op_create(by_size, 1, &op);
  for (int c = 0; c < kCalls; ++c) {
    for (int i = 0; i < kInts; ++i) in[c][i] = signed_value(rank, i + c);
    MPI_Iallreduce(in[c], out[c], kInts, MPI_INT, op, MPI_COMM_WORLD, &requests[c]);
  }
  MPI_Op_free(&op);
  if (op != MPI_OP_NULL) fail("the freed operation", 0, 1, 0);
  usleep(20000);
  MPI_Op_create(add, 1, &op); /* which may get its handle */
  MPI_Waitall(kCalls, requests, MPI_STATUSES_IGNORE);
  MPI_Op_free(&op);
  for (int c = 0; c < kCalls; ++c, ++cases)
    for (int i = 0; i < kInts; ++i)
      if (out[c][i] != largest(i + c)) return fail("outstanding", i, out[c][i], largest(i + c));
}

struct double_int {
  double value;
  int at;
};

static void pairs(void) {
  for (int c = 0; c < kSizes; ++c) {
    const int n = kCounts[c];
    struct double_int *in = calloc((size_t)n, sizeof *in), *out = calloc((size_t)n, sizeof *out);
    int *two = malloc((size_t)n * 2 * sizeof(int)), *both = malloc((size_t)n * 2 * sizeof(int));
    for (int i = 0; i < n; ++i) {
      in[i].value = (rank * 7 + i) % 5, in[i].at = rank;
      two[2 * i] = (rank * 3 + i) % 4, two[2 * i + 1] = rank;
    }
    MPI_Allreduce(in, out, n, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    MPI_Allreduce(two, both, n, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    for (int i = 0; i < n; ++i) {
      struct double_int best = {-1, 0};
      int least = 99, where = 0;
      for (int r = 0; r < size; ++r) {
        if ((r * 7 + i) % 5 > best.value) best.value = (r * 7 + i) % 5, best.at = r;
        if ((r * 3 + i) % 4 < least) least = (r * 3 + i) % 4, where = r;
      }
      if (out[i].value != best.value || out[i].at != best.at) return fail("MAXLOC", i, out[i].at, best.at);
      if (both[2 * i] != least || both[2 * i + 1] != where) return fail("MINLOC", i, both[2 * i + 1], where);
    }
    free(in);
    free(out);
    free(two);
    free(both);
    cases += 2;
  }
}

static void numbers(void) {
  enum { kNumbers = 5000 };
  static double complex in[kNumbers], out[kNumbers];
  static long double wide[kNumbers], widest[kNumbers];
  for (int i = 0; i < kNumbers; ++i) in[i] = (i % 3) + (rank % 2 ? 1 : -1) * I, wide[i] = i + rank;
  MPI_Allreduce(in, out, kNumbers, MPI_C_DOUBLE_COMPLEX, MPI_PROD, MPI_COMM_WORLD);
  MPI_Allreduce(wide, widest, kNumbers, MPI_LONG_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  for (int i = 0; i < kNumbers; ++i) {
    double complex want = 1;
    for (int r = 0; r < size; ++r) want *= (i % 3) + (r % 2 ? 1 : -1) * I;
    if (out[i] != want) return fail("complex product", i, creal(out[i]), creal(want));
    if (widest[i] != i + size - 1) return fail("long double", i, (double)widest[i], i + size - 1);
  }
  cases += 2;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int everything = argc > 1; /* also what is left to the original */
  MPI_Op op, sum;
  MPI_Op_create(by_size, 1, &op);
  MPI_Op_create(add, 1, &sum);
  users(op, sum);
  MPI_Op_free(&op);
  MPI_Op_free(&sum);
  if (everything) freed_and_made_again();
  of_several_numbers(0);
  of_several_numbers(1);
  types_made_again();
  outstanding();
  pairs();
  numbers();
  if (size > 1 && calls == 0) fail("no function was called", 0, 0, 1);
  long mine[2] = {cases, failures}, all[2];
  MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("check: %ld cases %ld failures\n", all[0], all[1]);
  MPI_Finalize();
  return all[1] ? 1 : 0;
}
