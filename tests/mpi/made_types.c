/* Small calls with derived types that the program makes for each call, other ones on each rank: some lie
 * without gaps, some have to be packed, and some ranks name a type of MPI's instead. Every result is
 * verified, and nothing between the elements may be touched. An ordinary MPI program: it knows nothing of who
 * serves its calls.
 *
 *   made_types */
#include <stdio.h>
#include <stdlib.h>

#include "matrix.h"

enum { kRepeats = 150, kLong = 1000, kMostCount = 20, kMostExtent = 8 };

/* Those from ALLGATHERV on say the count for every rank. */
enum kind {
  BCAST,
  ALLGATHER,
  ALLTOALL,
  GATHER,
  SCATTER,
  ALLGATHERV,
  ALLTOALLV,
  ALLTOALLW,
  GATHERV,
  SCATTERV,
  KINDS
};
static const char* const kNames[KINDS] = {"bcast",      "allgather", "alltoall",  "gather",  "scatter",
                                          "allgatherv", "alltoallv", "alltoallw", "gatherv", "scatterv"};
static int is_in_blocks(enum kind kind) {
  return kind == ALLTOALL || kind == SCATTER || kind == ALLTOALLV || kind == ALLTOALLW || kind == SCATTERV;
}
static int is_of_root(enum kind kind) { return kind == BCAST || kind == SCATTER || kind == SCATTERV; }
static int is_to_root(enum kind kind) { return kind == GATHER || kind == GATHERV; }
static int says_places(enum kind kind) { return kind >= ALLGATHERV; }

/* Ways to lay four ints into memory, in the order in which they travel: two without gaps, and others, of
 * which one is backwards. NAMED: four of MPI_INT. */
enum { kInts = 4, LAYOUTS = 11, NAMED = LAYOUTS };
static const int kPlaces[LAYOUTS + 1][kInts] = {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 3, 4}, {0, 2, 4, 6},
                                                {3, 2, 1, 0}, {5, 0, 1, 7}, {0, 2, 4, 6}, {7, 0, 1, 2},
                                                {1, 3, 5, 7}, {4, 5, 0, 1}, {0, 1, 3, 4}, {0, 1, 2, 3}};
static const int kExtents[LAYOUTS + 1] = {4, 4, 5, 7, 4, 8, 8, 8, kMostExtent, 6, 5, 4};

static int size, me;
static int backwards; /* the blocks of what says where they lie: the last rank has the first */
static int *in, *out;

static void wrong(const char* what, enum kind kind, int n, int i, int got, int expected) {
  if (failures++ < 10)
    fprintf(stderr, "check: %s, %s of %d elements, rank %d of %d: int %d is %d, not %d\n", what, kNames[kind],
            n, me, size, i, got, expected);
}

/* Elements of a layout and their type, as a call names them. */
struct elements {
  int layout, count;
  MPI_Datatype type;
};

static struct elements elements_of(int layout, int n) {
  if (layout == NAMED) return (struct elements){layout, n * kInts, MPI_INT};
  MPI_Datatype type;
  if (layout == 0) MPI_Type_vector(1, kInts, 9, MPI_INT, &type);
  if (layout == 1) MPI_Type_vector(2, 2, 2, MPI_INT, &type);
  if (layout == 2) MPI_Type_vector(2, 2, 3, MPI_INT, &type);
  if (layout == 3) MPI_Type_vector(kInts, 1, 2, MPI_INT, &type);
  if (layout == 4 || layout == 5) MPI_Type_create_indexed_block(kInts, 1, kPlaces[layout], MPI_INT, &type);
  if (layout == 6) {
    const int all[] = {kInts, 2}, part[] = {kInts, 1}, start[] = {0, 0};
    MPI_Type_create_subarray(2, all, part, start, MPI_ORDER_C, MPI_INT, &type);
  }
  if (layout == 7) {
    const int lengths[] = {1, 3};
    const MPI_Aint places[] = {7 * sizeof(int), 0};
    const MPI_Datatype ints[] = {MPI_INT, MPI_INT};
    MPI_Type_create_struct(2, lengths, places, ints, &type);
  }
  if (layout == 8) {
    const int all[] = {kInts, 2}, part[] = {kInts, 1}, start[] = {0, 1};
    MPI_Datatype column;
    MPI_Type_create_subarray(2, all, part, start, MPI_ORDER_C, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, kMostExtent * (int)sizeof(int), &type);
    MPI_Type_free(&column);
  }
  if (layout == 9) {
    const int lengths[] = {2, 2}, places[] = {4, 0};
    MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
  }
  if (layout == 10) MPI_Type_create_hvector(2, 2, 3 * sizeof(int), MPI_INT, &type);
  MPI_Type_commit(&type);
  return (struct elements){layout, n, type};
}

/* In bytes, of all. */
static int extent_of(struct elements elements) {
  const int ints = elements.layout == NAMED ? elements.count : elements.count * kExtents[elements.layout];
  return ints * (int)sizeof(int);
}

static void forget(struct elements* elements) {
  if (elements->layout != NAMED) MPI_Type_free(&elements->type);
}

static int place_of(int rank) { return backwards ? size - 1 - rank : rank; }

static int* int_of(int* memory, int layout, int n, int block, int i) {
  return memory + (block * n + i / kInts) * kExtents[layout] + kPlaces[layout][i % kInts];
}

/* What int i of that block is to be here. */
static int expected(enum kind kind, int root, int block, int i, int seed) {
  return value(is_of_root(kind) ? root : block, is_in_blocks(kind) ? me : 0, i, seed);
}

static void check_output(enum kind kind, int layout, int n, int blocks, int root, int seed) {
  int held = 0;
  for (int b = 0; b < blocks; ++b)
    for (int i = 0; i < n * kInts; ++i) {
      int* got = int_of(out, layout, n, blocks > 1 ? place_of(b) : b, i);
      const int want = expected(kind, root, b, i, seed);
      if (*got != want) return wrong("made types", kind, n, b * n * kInts + i, *got, want);
      *got = kUntouched;
    }
  for (int i = 0; i <= blocks * n * kExtents[layout]; ++i) held += out[i] != kUntouched;
  if (held > 0) wrong("between made types", kind, n, 0, held, 0);
}

static void call(enum kind kind, MPI_Comm comm, int root, struct elements from, struct elements to) {
  static int in_counts[64], in_places[64], out_counts[64], out_places[64];
  int in_bytes[64], out_bytes[64];
  MPI_Datatype in_types[64], out_types[64];
  const int is_root = me == root;
  for (int r = 0; r < size; ++r) {
    in_counts[r] = from.count, in_places[r] = place_of(r) * from.count;
    out_counts[r] = to.count, out_places[r] = place_of(r) * to.count;
    in_types[r] = from.type, out_types[r] = to.type;
    in_bytes[r] = place_of(r) * extent_of(from), out_bytes[r] = place_of(r) * extent_of(to);
  }
  /* What does not count on a rank may be anything there. */
  const int* const no_counts = NULL;
  switch (kind) {
    case BCAST:
      if (is_root)
        MPI_Bcast(in, from.count, from.type, root, comm);
      else
        MPI_Bcast(out, to.count, to.type, root, comm);
      break;
    case ALLGATHER:
      MPI_Allgather(in, from.count, from.type, out, to.count, to.type, comm);
      break;
    case ALLTOALL:
      MPI_Alltoall(in, from.count, from.type, out, to.count, to.type, comm);
      break;
    case GATHER:
      MPI_Gather(in, from.count, from.type, out, to.count, to.type, root, comm);
      break;
    case SCATTER:
      MPI_Scatter(in, from.count, from.type, out, to.count, to.type, root, comm);
      break;
    case ALLGATHERV:
      MPI_Allgatherv(in, from.count, from.type, out, out_counts, out_places, to.type, comm);
      break;
    case ALLTOALLV:
      MPI_Alltoallv(in, in_counts, in_places, from.type, out, out_counts, out_places, to.type, comm);
      break;
    case ALLTOALLW:
      MPI_Alltoallw(in, in_counts, in_bytes, in_types, out, out_counts, out_bytes, out_types, comm);
      break;
    case GATHERV:
      MPI_Gatherv(in, from.count, from.type, is_root ? out : NULL, is_root ? out_counts : no_counts,
                  is_root ? out_places : no_counts, is_root ? to.type : MPI_DATATYPE_NULL, root, comm);
      break;
    default:
      MPI_Scatterv(is_root ? in : NULL, is_root ? in_counts : no_counts, is_root ? in_places : no_counts,
                   is_root ? from.type : MPI_DATATYPE_NULL, out, to.count, to.type, root, comm);
      break;
  }
}

/* A call of n elements of these layouts here, so many times. */
static void several(int times, enum kind kind, MPI_Comm comm, int root, int n, int in_layout, int out_layout,
                    int seed) {
  const int in_blocks = is_in_blocks(kind) ? size : 1;
  const int out_blocks = is_of_root(kind) ? 1 : size;
  const int is_root = me == root;
  struct elements from = elements_of(in_layout, n), to = elements_of(out_layout, n);
  ++cases_done;
  backwards = says_places(kind) && seed % 3 == 1;
  for (int i = 0; i <= size * n * kMostExtent; ++i) in[i] = out[i] = kUntouched;
  for (int b = 0; b < in_blocks; ++b)
    for (int i = 0; i < n * kInts; ++i)
      *int_of(in, in_layout, n, in_blocks > 1 ? place_of(b) : b, i) = value(me, b, i, seed);
  for (int i = 0; i < times; ++i) call(kind, comm, root, from, to);
  forget(&from);
  forget(&to);
  const int has_out = kind == BCAST ? !is_root : is_to_root(kind) ? is_root : 1;
  if (has_out) check_output(kind, out_layout, n, out_blocks, root, seed);
}

static void one(enum kind kind, MPI_Comm comm, int root, int n, int in_layout, int out_layout, int seed) {
  several(1, kind, comm, root, n, in_layout, out_layout, seed);
}

static void of_all_layouts(MPI_Comm comm) {
  for (enum kind kind = 0; kind < KINDS; ++kind)
    for (int i = 0; i < kRepeats; ++i) {
      const int in_layout = (i + me) % 7 == 6 ? NAMED : (i + me) % LAYOUTS;
      several(1 + i % 5, kind, comm, i / 7 % size, 1 + i % 2, in_layout, (i / 2 + 5 * me) % LAYOUTS,
              1000 * kind + i);
    }
}

/* The same call so often that whoever serves it may try several ways, of which all ranks must try the same
 * one, also where only some of them have to pack; with up to two barriers behind it. */
static void where_some_pack(MPI_Comm comm) {
  static const int counts[] = {1, 2, 6, kMostCount};
  for (enum kind kind = 0; kind < KINDS; ++kind)
    for (int c = 0; c < 4; ++c)
      for (int i = 0; i < kLong; ++i) {
        const int layout = me % 2 == c % 2 ? 3 : NAMED;
        one(kind, comm, 0, counts[c], layout, layout, kind + i);
        for (int b = 0; b < i % 3; ++b) MPI_Barrier(comm);
      }
}

/* Types of no ints, on one rank or on all: then some name no buffer either. */
static void with_types_of_nothing(MPI_Comm comm) {
  int counts[64], places[64];
  MPI_Datatype none, own;
  MPI_Type_contiguous(0, MPI_INT, &none);
  MPI_Type_contiguous(me, MPI_INT, &own);
  MPI_Type_commit(&none);
  MPI_Type_commit(&own);
  for (int r = 0, at = 0; r < size; at += counts[r++]) counts[r] = r, places[r] = at;
  for (int turn = 0; turn < 4; ++turn) {
    for (int i = 0; i < me; ++i) in[i] = value(me, 0, i, turn);
    MPI_Allgatherv(me > 0 ? in : NULL, 1, own, out, counts, places, MPI_INT, comm);
    for (int r = 0; r < size; ++r)
      for (int i = 0; i < r; ++i)
        if (out[places[r] + i] != value(r, 0, i, turn))
          wrong("none of a rank", ALLGATHER, 1, places[r] + i, out[places[r] + i], value(r, 0, i, turn));
    MPI_Barrier(comm);
    MPI_Bcast(me == 0 ? in : NULL, 1, none, 0, comm);
    MPI_Barrier(comm);
    cases_done += 2;
  }
  MPI_Type_free(&none);
  MPI_Type_free(&own);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const size_t ints = (size_t)(size * kMostCount * kMostExtent) + 1;
  in = malloc(ints * sizeof(int));
  out = malloc(ints * sizeof(int));
  of_all_layouts(MPI_COMM_WORLD);
  where_some_pack(MPI_COMM_WORLD);
  with_types_of_nothing(MPI_COMM_WORLD);
  const int result = report();
  MPI_Finalize();
  free(in);
  free(out);
  return result;
}
