/* soak SECONDS SEED [calm]: collectives of random kinds, types, operations and sizes, blocking and not, on communicators
 * that come and go, each result checked. All ranks draw the same numbers, so that they make the same calls. Says every
 * second how far it is, with the memory of each rank; at the end whether that has grown since the first quarter. `calm`:
 * does not look at the memory. Ends with 1 after a wrong result, with 3 where the memory has grown. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_COMMS = 6, MOST_PENDING = 6, MOST_BYTES = 4 << 20, MOST_RANKS = 64, LOOK_EVERY = 16 };
#define SAYS_EVERY 1.0

enum kind {
  ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, BARRIER, ALL_GATHER_V, ALL_TO_ALL_V,
  KINDS
};
static const char* const kind_names[KINDS] = {"allreduce",      "bcast",    "reduce", "allgather", "reduce_scatter",
                                              "alltoall", "gather", "scatter",   "barrier", "allgatherv", "alltoallv"};

static struct pending {
  MPI_Request request;
  enum kind kind;
  MPI_Comm comm;
  int type, op, root, rank, size, blocking;
  long count; /* of a block, at most */
  uint64_t seed;
  char *in, *out;
  int given[MOST_RANKS], taken[MOST_RANKS], at[MOST_RANKS];
} calls[MOST_PENDING];

static uint64_t state;
static uint64_t draw(uint64_t below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state % below;
}

/* Small whole numbers: sums are exact in every type and order. */
static int value(uint64_t seed, int rank, long i) {
  return (int)((seed + (uint64_t)rank * 7 + (uint64_t)i * 3) % 5);
}

enum { TYPES = 6, OPS = 4 };
static MPI_Datatype type_of(int type) {
  MPI_Datatype types[TYPES] = {MPI_INT, MPI_FLOAT, MPI_DOUBLE, MPI_INT64_T, MPI_UINT8_T, MPI_UINT16_T};
  return types[type];
}
static const long sizes[TYPES] = {4, 4, 8, 8, 1, 2};
static MPI_Op op_of(int op) {
  MPI_Op ops[OPS] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_SUM};
  return ops[op];
}

static void put(char* at, int type, int number) {
  switch (type) {
    case 0: { int32_t x = number; memcpy(at, &x, 4); break; }
    case 1: { float x = (float)number; memcpy(at, &x, 4); break; }
    case 2: { double x = number; memcpy(at, &x, 8); break; }
    case 3: { int64_t x = number; memcpy(at, &x, 8); break; }
    case 4: { uint8_t x = (uint8_t)number; memcpy(at, &x, 1); break; }
    default: { uint16_t x = (uint16_t)number; memcpy(at, &x, 2); break; }
  }
}

static int reduced(const struct pending* c, long i) {
  int all = value(c->seed, 0, i);
  for (int r = 1; r < c->size; ++r) {
    int one = value(c->seed, r, i);
    if (op_of(c->op) == MPI_SUM) all += one;
    if (op_of(c->op) == MPI_MAX && one > all) all = one;
    if (op_of(c->op) == MPI_MIN && one < all) all = one;
  }
  return all;
}

static int is_unequal(const struct pending* c) { return c->kind == ALL_GATHER_V || c->kind == ALL_TO_ALL_V; }

/* What one rank has for another: nothing, a few, some or all. */
static long length(const struct pending* c, int from, int to) {
  if (!is_unequal(c)) return c->count;
  const uint64_t draws = c->seed + (uint64_t)from * 5 + (c->kind == ALL_TO_ALL_V ? (uint64_t)to * 3 : 0);
  const long lengths[] = {0, c->count < 3 ? c->count : 3, c->count / 16, c->count};
  return lengths[(c->seed / 7 + draws) % 4];
}

static long blocks_in(const struct pending* c) {
  return c->kind == REDUCE_SCATTER || c->kind == ALL_TO_ALL || c->kind == ALL_TO_ALL_V || c->kind == SCATTER ? c->size : 1;
}
static long blocks_out(const struct pending* c) {
  if (c->kind == BARRIER || ((c->kind == REDUCE || c->kind == GATHER) && c->rank != c->root)) return 0;
  return c->kind == ALL_GATHER || c->kind == ALL_TO_ALL || c->kind == GATHER || is_unequal(c) ? c->size : 1;
}

static int expected(const struct pending* c, long block, long i) {
  switch (c->kind) {
    case ALL_REDUCE:
    case REDUCE: return reduced(c, i);
    case REDUCE_SCATTER: return reduced(c, c->rank * c->count + i);
    case BROADCAST: return value(c->seed, c->root, i);
    case SCATTER: return value(c->seed, c->root, c->rank * c->count + i);
    case ALL_TO_ALL:
    case ALL_TO_ALL_V: return value(c->seed, (int)block, c->rank * c->count + i);
    default: return value(c->seed, (int)block, i);
  }
}

static void check(const struct pending* c) {
  for (long b = 0; b < blocks_out(c); ++b)
    for (long i = 0; i < c->count; ++i) {
      char right[8];
      const char* got = c->out + (b * c->count + i) * sizes[c->type];
      memset(right, 0xee, sizeof right);
      if (i < length(c, (int)b, c->rank)) put(right, c->type, expected(c, b, i));
      if (memcmp(right, got, (size_t)sizes[c->type]) == 0) continue;
      fprintf(stderr, "soak: wrong: %s of %ld elements of type %d, operation %d, root %d, rank %d of %d, block %ld, element %ld\n",
              kind_names[c->kind], c->count, c->type, c->op, c->root, c->rank, c->size, b, i);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void start(struct pending* c) {
  const MPI_Datatype type = type_of(c->type);
  const MPI_Op op = op_of(c->op);
  const int n = (int)c->count, root = c->root;
  MPI_Comm comm = c->comm;
  MPI_Request* r = &c->request;
  for (long i = 0; i < blocks_in(c) * c->count; ++i) put(c->in + i * sizes[c->type], c->type, value(c->seed, c->rank, i));
  memset(c->out, 0xee, (size_t)(blocks_out(c) * c->count * sizes[c->type]));
  if (c->kind == BROADCAST && c->rank == root) memcpy(c->out, c->in, (size_t)(c->count * sizes[c->type]));
  for (int k = 0; is_unequal(c) && k < c->size; ++k) {
    c->given[k] = (int)length(c, c->rank, k);
    c->taken[k] = (int)length(c, k, c->rank);
    c->at[k] = k * n;
  }
#define EITHER(blocking_call, call) c->blocking ? (*r = MPI_REQUEST_NULL, blocking_call) : call
  switch (c->kind) {
    case ALL_REDUCE:
      EITHER(MPI_Allreduce(c->in, c->out, n, type, op, comm), MPI_Iallreduce(c->in, c->out, n, type, op, comm, r));
      break;
    case BROADCAST: EITHER(MPI_Bcast(c->out, n, type, root, comm), MPI_Ibcast(c->out, n, type, root, comm, r)); break;
    case REDUCE:
      EITHER(MPI_Reduce(c->in, c->out, n, type, op, root, comm), MPI_Ireduce(c->in, c->out, n, type, op, root, comm, r));
      break;
    case ALL_GATHER:
      EITHER(MPI_Allgather(c->in, n, type, c->out, n, type, comm), MPI_Iallgather(c->in, n, type, c->out, n, type, comm, r));
      break;
    case REDUCE_SCATTER:
      EITHER(MPI_Reduce_scatter_block(c->in, c->out, n, type, op, comm),
             MPI_Ireduce_scatter_block(c->in, c->out, n, type, op, comm, r));
      break;
    case ALL_TO_ALL:
      EITHER(MPI_Alltoall(c->in, n, type, c->out, n, type, comm), MPI_Ialltoall(c->in, n, type, c->out, n, type, comm, r));
      break;
    case GATHER:
      EITHER(MPI_Gather(c->in, n, type, c->out, n, type, root, comm),
             MPI_Igather(c->in, n, type, c->out, n, type, root, comm, r));
      break;
    case SCATTER:
      EITHER(MPI_Scatter(c->in, n, type, c->out, n, type, root, comm),
             MPI_Iscatter(c->in, n, type, c->out, n, type, root, comm, r));
      break;
    case ALL_GATHER_V:
      EITHER(MPI_Allgatherv(c->in, c->given[0], type, c->out, c->taken, c->at, type, comm),
             MPI_Iallgatherv(c->in, c->given[0], type, c->out, c->taken, c->at, type, comm, r));
      break;
    case ALL_TO_ALL_V:
      EITHER(MPI_Alltoallv(c->in, c->given, c->at, type, c->out, c->taken, c->at, type, comm),
             MPI_Ialltoallv(c->in, c->given, c->at, type, c->out, c->taken, c->at, type, comm, r));
      break;
    default: EITHER(MPI_Barrier(comm), MPI_Ibarrier(comm, r)); break;
  }
}

static long resident_kib(void) {
  long pages = 0, all = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file) {
    if (fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
    fclose(file);
  }
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static MPI_Comm comms[MOST_COMMS];

/* Frees one of the communicators, if there is one in that place, or makes one of another. */
static void change_comms(int rank) {
  const uint64_t place = 1 + draw(MOST_COMMS - 1), from = draw(MOST_COMMS), how = draw(3), parts = 1 + draw(3);
  if (comms[place] != MPI_COMM_NULL) {
    MPI_Comm_free(&comms[place]);
  } else if (how == 0 && comms[from] != MPI_COMM_NULL) {
    MPI_Comm_dup(comms[from], &comms[place]);
  } else if (how == 1) {
    MPI_Comm_split(MPI_COMM_WORLD, (int)((uint64_t)rank % parts), (int)(how ? -rank : rank), &comms[place]);
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[place]);
  }
}

/* What differs between the ranks of a split must not differ in what they draw: sizes do, so they count from the world's. */
static void choose(struct pending* c) {
  uint64_t place = draw(MOST_COMMS);
  const uint64_t kind = draw(KINDS + 4), magnitude = draw(21), jitter = draw(1 << 16), root = draw(1 << 16);
  c->type = (int)draw(TYPES);
  c->op = (int)draw(OPS);
  c->seed = draw(1 << 20);
  c->blocking = draw(3) > 0;
  c->kind = kind < KINDS ? (enum kind)kind : ALL_REDUCE;
  c->comm = comms[place] == MPI_COMM_NULL ? MPI_COMM_WORLD : comms[place];
  MPI_Comm_rank(c->comm, &c->rank);
  MPI_Comm_size(c->comm, &c->size);
  c->root = (int)(root % (uint64_t)c->size);
  c->count = (long)(((1ull << magnitude) + (jitter << magnitude >> 16)) - (jitter % 2));
  const long most = MOST_BYTES / sizes[c->type] / c->size;
  if (c->count > most) c->count = most;
  if (c->kind == BARRIER) c->count = 0;
  if (is_unequal(c) && c->size > MOST_RANKS) c->kind = ALL_REDUCE;
}

static int is_larger(const void* a, const void* b) { return *(const long*)a > *(const long*)b; }

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const double seconds = atof(argv[1]);
  const int is_calm = argc > 3;
  int rank = 0, size = 0, pending = 0, goes_on = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  state = 88172645463325252ull + strtoull(argv[2], NULL, 10) * 7919;
  for (int i = 0; i < MOST_COMMS; ++i) comms[i] = i ? MPI_COMM_NULL : MPI_COMM_WORLD;
  for (int i = 0; i < MOST_PENDING; ++i) {
    calls[i].in = malloc(MOST_BYTES + 64), calls[i].out = malloc(MOST_BYTES + 64);
    memset(calls[i].in, 1, MOST_BYTES), memset(calls[i].out, 1, MOST_BYTES);
  }
  long* memory = calloc((size_t)size, sizeof(long));
  long *before = calloc(1 << 16, sizeof(long)), *after = calloc(1 << 16, sizeof(long)); /* the largest rank at a time */
  int n_before = 0, n_after = 0;
  long made = 0;
  if (rank == 0) printf("soak: begins\n"), fflush(stdout);
  double began = MPI_Wtime();
  MPI_Bcast(&began, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); /* all are to end at the same step */
  double said = began;
  for (long step = 1; goes_on; ++step) {
    struct pending* c = &calls[pending];
    choose(c);
    start(c);
    if (c->blocking)
      check(c);
    else
      ++pending;
    ++made;
    if (pending == MOST_PENDING || draw(8) == 0) {
      for (int i = 0; i < pending; ++i) MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE), check(&calls[i]);
      pending = 0;
      if (draw(4) == 0) change_comms(rank);
    }
    if (step % LOOK_EVERY != 0) continue;
    double now = MPI_Wtime();
    MPI_Bcast(&now, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    goes_on = now - began < seconds;
    if (now - said < SAYS_EVERY && goes_on) continue;
    said = now;
    const long mine = resident_kib();
    MPI_Gather(&mine, 1, MPI_LONG, memory, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    if (rank != 0) continue;
    printf("soak: %.0f s, %ld calls, MiB:", now - began, made);
    for (int r = 0; r < size; ++r) printf(" %.1f", (double)memory[r] / 1024);
    printf("\n");
    fflush(stdout);
    qsort(memory, (size_t)size, sizeof(long), is_larger);
    if (now - began > seconds / 4 && now - began < seconds / 2 && n_before < 1 << 16) before[n_before++] = memory[size - 1];
    if (now - began > seconds * 3 / 4 && n_after < 1 << 16) after[n_after++] = memory[size - 1];
  }
  for (int i = 0; i < pending; ++i) MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE), check(&calls[i]);
  int has_grown = 0;
  if (rank == 0 && !is_calm && n_before && n_after) {
    qsort(before, (size_t)n_before, sizeof(long), is_larger), qsort(after, (size_t)n_after, sizeof(long), is_larger);
    const double first = (double)before[n_before / 2] / 1024, last = (double)after[n_after / 2] / 1024;
    has_grown = last > first * 1.05 + 4;
    printf("soak: the largest rank has %.1f MiB in the second quarter, %.1f in the last%s\n", first, last,
           has_grown ? ": it grows" : "");
  }
  MPI_Bcast(&has_grown, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("soak: %ld calls, no result wrong\n", made);
  fflush(stdout);
  MPI_Finalize();
  return has_grown ? 3 : 0;
}
