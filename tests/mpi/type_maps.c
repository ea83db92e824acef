/* Random types, of types, of all makings that MPI has, and calls with them again and again: what arrives is
 * what MPI_Pack and MPI_Unpack make of it, and nothing else is touched. Senders have another type than
 * receivers now and then. An ordinary MPI program: it knows nothing of who serves its calls.
 *
 *   type_maps [SEED [TYPES]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

enum { kMostRanks = 16, kMostBytes = 1 << 18, kMargin = 1 << 16, kRoom = 1 << 20, kTurns = 4 };

static unsigned long long seed;
static int below(int most) { /* the same on all ranks */
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (int)((seed >> 33) % (unsigned)most);
}

static MPI_Datatype named(void) {
  const MPI_Datatype all[] = {MPI_INT,       MPI_DOUBLE,     MPI_CHAR,  MPI_SHORT,
                              MPI_SHORT_INT, MPI_DOUBLE_INT, MPI_FLOAT, MPI_C_DOUBLE_COMPLEX,
                              MPI_LONG_INT,  MPI_BYTE};
  return all[below((int)(sizeof all / sizeof all[0]))];
}

/* Bytes from the first to the last that an element has. */
static int is_small(MPI_Datatype type) {
  MPI_Aint lower, extent, true_lower, true_extent;
  MPI_Type_get_extent(type, &lower, &extent);
  MPI_Type_get_true_extent(type, &true_lower, &true_extent);
  return llabs((long long)true_lower) < kMargin / 8 && true_extent < kMargin / 8 &&
         llabs((long long)extent) < kMargin / 8;
}

static MPI_Datatype made_of(MPI_Datatype one, MPI_Datatype other) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  int lengths[4], places[4], sizes[3], starts[3], parts[3], n = 1 + below(4);
  MPI_Aint addresses[4], lower, extent;
  MPI_Datatype types[4];
  MPI_Type_get_extent(one, &lower, &extent);
  for (int i = 0; i < 4; ++i) {
    lengths[i] = below(4);
    places[i] = i * 5 + below(3);
    types[i] = below(2) ? one : other;
    addresses[i] = (MPI_Aint)(below(2) ? 3 - i : i) * 256 + below(8);
  }
  for (int i = 0; i < 3; ++i) {
    parts[i] = 1 + below(3);
    sizes[i] = parts[i] + below(3);
    starts[i] = below(sizes[i] - parts[i] + 1);
  }
  switch (below(11)) {
    case 0:
      MPI_Type_contiguous(below(5), one, &made);
      break;
    case 1:
      MPI_Type_vector(n, below(4), 1 + below(6), one, &made);
      break;
    case 2:
      MPI_Type_create_hvector(n, below(4), (below(2) ? 1 : -1) * (extent * 3 + below(9)), one, &made);
      break;
    case 3:
      MPI_Type_indexed(n, lengths, places, one, &made);
      break;
    case 4:
      MPI_Type_create_hindexed(n, lengths, addresses, one, &made);
      break;
    case 5:
      MPI_Type_create_indexed_block(n, 1 + below(3), places, one, &made);
      break;
    case 6:
      MPI_Type_create_hindexed_block(n, 1 + below(3), addresses, one, &made);
      break;
    case 7:
      MPI_Type_create_struct(n, lengths, addresses, types, &made);
      break;
    case 8:
      MPI_Type_create_subarray(1 + below(3), sizes, parts, starts, below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN,
                               one, &made);
      break;
    case 9:
      MPI_Type_create_resized(one, below(16) - 8, extent + below(32), &made);
      break;
    default:
      MPI_Type_dup(one, &made);
      break;
  }
  return made;
}

static void drop(MPI_Datatype type) {
  int integers, addresses, types, combiner;
  MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&type);
}

/* Never of nothing: Open MPI 4.1.4 takes a struct of something and nothing for one without gaps. */
static MPI_Datatype random_type(int depth) {
  int bytes;
  if (depth == 0) return named();
  MPI_Datatype one = random_type(depth - 1), other = random_type(below(depth)), made = made_of(one, other);
  drop(one); /* the parts live on in what is made of them */
  drop(other);
  MPI_Type_size(made, &bytes);
  if (bytes > 0) return made;
  drop(made);
  return random_type(depth);
}

static unsigned char buffer[kRoom], expected[kRoom], packed[kMostBytes], theirs[kRoom];

static void fill(unsigned char* at, int what) {
  for (int i = 0; i < kRoom; ++i) at[i] = (unsigned char)(i * 7 + what * 31 + i / 256);
}

static void compare(const char* what, int number) {
  for (int i = 0; i < kRoom; ++i)
    if (buffer[i] != expected[i]) {
      if (failures++ < 10)
        fprintf(stderr, "check: type %d, %s: byte %d is %d, not %d\n", number, what, i, buffer[i],
                expected[i]);
      return;
    }
}

/* What `root` has, as packed bytes. */
static int packed_of(int count, MPI_Datatype type, int what) {
  int position = 0;
  fill(theirs, what);
  MPI_Pack(theirs + kRoom / 2, count, type, packed, kMostBytes, &position, MPI_COMM_SELF);
  return position;
}

static void check_type(MPI_Datatype type, int number, int me, int size) {
  int bytes, count = 1 + below(6);
  MPI_Type_size(type, &bytes);
  bytes *= count;
  for (int turn = 0; turn < kTurns; ++turn) {
    const int root = below(size), as_bytes = below(3) == 0, position = packed_of(count, type, root);
    /* broadcast, to who has the type, from who may have bytes */
    fill(expected, me);
    int at = 0;
    if (me != root) MPI_Unpack(packed, position, &at, expected + kRoom / 2, count, type, MPI_COMM_SELF);
    fill(buffer, me);
    MPI_Request request = MPI_REQUEST_NULL;
    void* from = me == root && as_bytes ? (void*)packed : buffer + kRoom / 2;
    if (below(2)) {
      MPI_Bcast(from, me == root && as_bytes ? bytes : count, me == root && as_bytes ? MPI_BYTE : type, root,
                MPI_COMM_WORLD);
    } else {
      MPI_Ibcast(from, me == root && as_bytes ? bytes : count, me == root && as_bytes ? MPI_BYTE : type, root,
                 MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    compare("a broadcast", number);
    cases_done += 2;
    /* all-gather of elements into bytes: what is packed */
    fill(buffer, me);
    memset(theirs, 0, sizeof theirs);
    unsigned char* all = calloc(1, (size_t)bytes * (size_t)size + 1);
    MPI_Allgather(buffer + kRoom / 2, count, type, all, bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r) {
      packed_of(count, type, r);
      if (memcmp(all + (size_t)r * (size_t)bytes, packed, (size_t)bytes) != 0 && failures++ < 10)
        fprintf(stderr, "check: type %d: what rank %d packs is something else\n", number, r);
    }
    free(all);
  }
}

/* Every other byte, backwards; Open MPI 4.1.4 takes the stride of -1 for none. */
static void check_strides(int me) {
  for (int stride = -2; stride < 3; ++stride) {
    MPI_Datatype type;
    MPI_Type_vector(6, 1, stride, MPI_CHAR, &type);
    MPI_Type_commit(&type);
    for (int turn = 0; turn < 2 * kTurns; ++turn) {
      unsigned char got[6];
      fill(buffer, turn);
      packed_of(1, type, turn);
      MPI_Bcast(me == 0 ? buffer + kRoom / 2 : got, me == 0 ? 1 : 6, me == 0 ? type : MPI_CHAR, 0,
                MPI_COMM_WORLD);
      ++cases_done;
      if (me != 0 && memcmp(got, packed, sizeof got) != 0 && failures++ < 10)
        fprintf(stderr, "check: a stride of %d, turn %d: something else than is packed\n", stride, turn);
    }
    MPI_Type_free(&type);
  }
}

/* A program may end MPI in a handler that runs after those of all libraries. */
static MPI_Datatype at_the_end;
static void end(void) {
  int numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8}, counts[kMostRanks], places[kMostRanks];
  static int in[8 * kMostRanks], out[8 * kMostRanks];
  for (int r = 0; r < kMostRanks; ++r) counts[r] = 1, places[r] = r;
  for (int turn = 0; turn < 2 * kTurns; ++turn) {
    MPI_Bcast(numbers, 1, at_the_end, 0, MPI_COMM_WORLD);
    MPI_Alltoallv(in, counts, places, at_the_end, out, counts, places, at_the_end, MPI_COMM_WORLD);
    MPI_Gatherv(in, 1, at_the_end, out, counts, places, at_the_end, 0, MPI_COMM_WORLD);
  }
  MPI_Type_free(&at_the_end);
  MPI_Finalize();
}

int main(int argc, char** argv) {
  atexit(end);
  int me, size, types = argc > 2 ? atoi(argv[2]) : 400, bytes, provided;
  seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  MPI_Init_thread(&argc, &argv, seed % 2 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int number = 0; number < types; ++number) {
    MPI_Datatype type = random_type(1 + below(4));
    MPI_Type_size(type, &bytes);
    if (is_small(type) && bytes < kMostBytes / 8) {
      MPI_Type_commit(&type);
      check_type(type, number, me, size);
    }
    drop(type);
  }
  check_strides(me);
  MPI_Type_vector(3, 1, 2, MPI_INT, &at_the_end);
  MPI_Type_commit(&at_the_end);
  int numbers[8] = {0};
  for (int turn = 0; turn < 2 * kTurns; ++turn) MPI_Bcast(numbers, 1, at_the_end, 0, MPI_COMM_WORLD);
  return report();
}
