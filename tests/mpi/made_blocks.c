/* Calls with a count for every rank, with types that the program makes for each call: as many elements for
 * each two ranks as chance will have it, none among them, blocks that lie in another order now and then, and
 * in place. The same again and again, from and to other memory: what arrives is what sends and receives with
 * the same types bring, and nothing else is touched. Blocking and started. An ordinary MPI program: it knows
 * nothing of who serves its calls.
 *
 *   made_blocks [SHAPES] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { kMost = 8, kTurns = 6, kBytes = 1 << 15, kShift = 64, kApart = 640, kTag = 5 };
enum kind { ALLTOALLV, ALLTOALLW, ALLGATHERV, ALLGATHERV_IN_PLACE, GATHERV, SCATTERV, KINDS };
static const char* const kNames[KINDS] = {"alltoallv",           "alltoallw", "allgatherv",
                                          "allgatherv in place", "gatherv",   "scatterv"};

static int size, me;
static unsigned char in[kBytes], out[kBytes], expected[kBytes];

/* The same number on all ranks. */
static unsigned chance(unsigned a, unsigned b, unsigned c) {
  unsigned long long x = (a * 1000003ull + b) * 1000003ull + c;
  x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ull;
  return (unsigned)(x >> 40);
}

/* Types of three ints: in a row, with gaps, backwards, of unequal parts, with a hole at the end, of another
 * one that was made. */
enum { LAYOUTS = 7 };
static MPI_Datatype made(int layout) {
  const int backwards[] = {2, 1, 0}, lengths[] = {1, 2}, whole[] = {3, 2}, part[] = {3, 1}, start[] = {0, 1};
  const MPI_Aint places[] = {12, 0};
  const MPI_Datatype parts[] = {MPI_FLOAT, MPI_INT};
  MPI_Datatype type, row;
  switch (layout) {
    case 0:
      MPI_Type_contiguous(3, MPI_INT, &type);
      break;
    case 1:
      MPI_Type_vector(3, 1, 3, MPI_INT, &type);
      break;
    case 2:
      MPI_Type_create_indexed_block(3, 1, backwards, MPI_INT, &type);
      break;
    case 3:
      MPI_Type_create_struct(2, lengths, places, parts, &type);
      break;
    case 4:
      MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, &type);
      break;
    case 5:
      MPI_Type_vector(3, 1, 2, MPI_INT, &row);
      MPI_Type_contiguous(1, row, &type);
      MPI_Type_free(&row);
      break;
    default:
      MPI_Type_contiguous(3, MPI_INT, &row);
      MPI_Type_create_resized(row, 0, 32, &type);
      MPI_Type_free(&row);
  }
  MPI_Type_commit(&type);
  return type;
}

/* One side: its block for each rank. Displacements are in elements, in bytes where each block has a type. */
struct side {
  unsigned char* buffer;
  int counts[kMost], places[kMost];
  MPI_Datatype types[kMost];
  MPI_Aint bytes[kMost]; /* where each begins */
};

/* `step`: from the layout of a block to that of the next; 0: all blocks are of one type. */
static void make_side(struct side* side, unsigned char* buffer, int layout, int step, int in_rows,
                      int backwards) {
  side->buffer = buffer;
  for (int r = 0; r < size; ++r) {
    const int at = backwards ? size - 1 - r : r;
    MPI_Aint lower, extent;
    const int is_last_again = step == 1 && r > 1;
    side->types[r] = is_last_again ? side->types[r - 1] : made(in_rows ? 0 : (layout + r * step) % LAYOUTS);
    MPI_Type_get_extent(side->types[r], &lower, &extent);
    side->places[r] = step > 0 ? at * kApart : at * 4;
    side->bytes[r] = step > 0 ? side->places[r] : side->places[r] * extent;
  }
}

static void free_side(struct side* side) {
  for (int r = size - 1; r >= 0; --r)
    if (r == 0 || side->types[r] != side->types[r - 1]) MPI_Type_free(&side->types[r]);
}

/* Some elements of no bytes, where there was none. */
static void make_nothing(struct side* side, int r) {
  if (side->counts[r] > 0) return;
  side->counts[r] = 2;
  MPI_Type_free(&side->types[r]);
  MPI_Type_indexed(0, NULL, NULL, MPI_INT, &side->types[r]);
  MPI_Type_commit(&side->types[r]);
}

/* What the call is to do: from each rank to each other one. */
static void exchange(const struct side* from, const struct side* to, int skips_own) {
  MPI_Request requests[2 * kMost];
  int n = 0;
  for (int r = 0; r < size; ++r) {
    if (skips_own && r == me) continue;
    MPI_Irecv(to->buffer + to->bytes[r], to->counts[r], to->types[r], r, kTag, MPI_COMM_WORLD,
              &requests[n++]);
    MPI_Isend(from->buffer + from->bytes[r], from->counts[r], from->types[r], r, kTag, MPI_COMM_WORLD,
              &requests[n++]);
  }
  MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

/* Blocking, or started. */
static void call(enum kind kind, const struct side* from, const struct side* to, int root, int starts,
                 MPI_Request* request) {
  const MPI_Datatype from_type = from->types[0], to_type = to->types[0];
  const int is_root = me == root;
  const int in_place = kind == ALLGATHERV_IN_PLACE;
  const void* own = in_place ? MPI_IN_PLACE : from->buffer + from->bytes[0];
  const int own_count = in_place ? 0 : from->counts[0];
  const MPI_Datatype own_type = in_place ? MPI_DATATYPE_NULL : from_type;
  unsigned char* many = is_root ? to->buffer : NULL;
  const int* counts = is_root ? to->counts : NULL;
  const int* places = is_root ? to->places : NULL;
  const MPI_Datatype type_of_many = is_root ? to_type : MPI_DATATYPE_NULL;
  const MPI_Comm world = MPI_COMM_WORLD;
  switch (kind) {
    case ALLTOALLV:
      if (starts)
        MPI_Ialltoallv(from->buffer, from->counts, from->places, from_type, to->buffer, to->counts,
                       to->places, to_type, world, request);
      else
        MPI_Alltoallv(from->buffer, from->counts, from->places, from_type, to->buffer, to->counts, to->places,
                      to_type, world);
      break;
    case ALLTOALLW:
      if (starts)
        MPI_Ialltoallw(from->buffer, from->counts, from->places, from->types, to->buffer, to->counts,
                       to->places, to->types, world, request);
      else
        MPI_Alltoallw(from->buffer, from->counts, from->places, from->types, to->buffer, to->counts,
                      to->places, to->types, world);
      break;
    case ALLGATHERV:
    case ALLGATHERV_IN_PLACE:
      if (starts)
        MPI_Iallgatherv(own, own_count, own_type, to->buffer, to->counts, to->places, to_type, world,
                        request);
      else
        MPI_Allgatherv(own, own_count, own_type, to->buffer, to->counts, to->places, to_type, world);
      break;
    case GATHERV:
      if (starts)
        MPI_Igatherv(from->buffer + from->bytes[root], from->counts[root], from_type, many, counts, places,
                     type_of_many, root, world, request);
      else
        MPI_Gatherv(from->buffer + from->bytes[root], from->counts[root], from_type, many, counts, places,
                    type_of_many, root, world);
      break;
    default:
      if (starts)
        MPI_Iscatterv(is_root ? from->buffer : NULL, is_root ? from->counts : NULL,
                      is_root ? from->places : NULL, is_root ? from_type : MPI_DATATYPE_NULL,
                      to->buffer + to->bytes[root], to->counts[root], to_type, root, world, request);
      else
        MPI_Scatterv(is_root ? from->buffer : NULL, is_root ? from->counts : NULL,
                     is_root ? from->places : NULL, is_root ? from_type : MPI_DATATYPE_NULL,
                     to->buffer + to->bytes[root], to->counts[root], to_type, root, world);
  }
}

/* How many elements `sender` has for `receiver`. */
static int count_of(enum kind kind, int shape, int root, int sender, int receiver) {
  if (kind == GATHERV && receiver != root) return 0;
  if (kind == SCATTERV && sender != root) return 0;
  const int is_for_all = kind == ALLGATHERV || kind == ALLGATHERV_IN_PLACE;
  return (int)(chance((unsigned)shape, (unsigned)sender, is_for_all ? 99 : (unsigned)receiver) % 4);
}

static void try(enum kind kind, int shape, int turn) {
  const int root = (int)chance((unsigned)shape, 7, 0) % size,
            step = kind == ALLTOALLW ? shape / KINDS % 3 + 1 : 0;
  const int backwards = chance((unsigned)shape, 8, (unsigned)turn / 4) % 2 == 1;
  const int layout = (int)chance((unsigned)shape, 9, (unsigned)me) % LAYOUTS;
  const int shift = kShift * ((turn + me) % 3);
  struct side from, to, wanted;
  for (int i = 0; i < kBytes; ++i) {
    in[i] = (unsigned char)chance((unsigned)i, (unsigned)me, (unsigned)(shape * kTurns + turn));
    out[i] = expected[i] = (unsigned char)chance((unsigned)i, 77, (unsigned)me);
  }
  const int in_rows = step == 3 && shape / (6 * KINDS) % 2 == 0;
  make_side(&from, in + shift, layout, step, in_rows, backwards);
  make_side(&to, out + shift, layout + turn / 3, step, in_rows, backwards);
  for (int r = 0; r < size; ++r) {
    from.counts[r] = count_of(kind, shape, root, me, r);
    to.counts[r] = count_of(kind, shape, root, r, me);
    if (kind == ALLGATHERV) from.bytes[r] = from.bytes[0]; /* one block for all */
    if (step == 3) make_nothing(&from, r), make_nothing(&to, r);
  }
  wanted = to;
  wanted.buffer = expected + shift;
  if (kind == ALLGATHERV_IN_PLACE) {
    struct side own = wanted;
    for (int r = 0; r < size; ++r) own.counts[r] = wanted.counts[me], own.bytes[r] = wanted.bytes[me];
    exchange(&own, &wanted, 1);
  } else {
    exchange(&from, &wanted, 0);
  }
  MPI_Request request = MPI_REQUEST_NULL;
  call(kind, &from, &to, root, shape / (3 * KINDS) % 2, &request);
  free_side(&from); /* what is under way may go on with them */
  free_side(&to);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  ++cases_done;
  if (memcmp(out, expected, kBytes) == 0) return;
  int at = 0;
  while (out[at] == expected[at]) ++at;
  if (failures++ < 10)
    fprintf(stderr, "check: %s, shape %d, turn %d, rank %d of %d: byte %d is %d, not %d\n", kNames[kind],
            shape, turn, me, size, at - shift, out[at], expected[at]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int shapes = argc > 1 ? atoi(argv[1]) : 120;
  for (int shape = 0; shape < shapes; ++shape)
    for (int turn = 0; turn < kTurns; ++turn) try((enum kind)(shape % KINDS), shape, turn);
  const int result = report();
  MPI_Finalize();
  return result;
}
