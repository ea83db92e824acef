#include "communicators.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MPI_Comm split(int color, int key) {
  MPI_Comm comm;
  MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm);
  return comm;
}

static MPI_Comm first_half(int size) {
  MPI_Group world, half;
  MPI_Comm comm = MPI_COMM_NULL;
  int range[1][3] = {{0, (size - 1) / 2, 1}}, rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_range_incl(world, 1, range, &half);
  if (rank <= (size - 1) / 2) MPI_Comm_create_group(MPI_COMM_WORLD, half, 7, &comm);
  MPI_Group_free(&half);
  MPI_Group_free(&world);
  return comm;
}

static MPI_Comm odd_order(int size) { /* every third first: neither block nor reversed */
  MPI_Group world, shuffled;
  MPI_Comm comm;
  int ranks[64], n = 0;
  for (int start = 0; start < 3; ++start)
    for (int r = start; r < size; r += 3) ranks[n++] = r;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, size, ranks, &shuffled);
  MPI_Comm_create(MPI_COMM_WORLD, shuffled, &comm);
  MPI_Group_free(&shuffled);
  MPI_Group_free(&world);
  return comm;
}

int make_groups(struct group groups[kMaxGroups]) {
  int n = 0, rank, size, periodic = 1;
  MPI_Comm comm;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  groups[n++] = make_group("MPI_COMM_WORLD", MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  groups[n++] = make_group("duplicate", comm);
  groups[n++] = make_group("reversed", split(0, size - rank));
  groups[n++] = make_group("parity", split(rank % 2, rank));
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
  groups[n++] = make_group("shared", comm);
  groups[n++] = make_group("first half", first_half(size));
  groups[n++] = make_group("odd order", odd_order(size));
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comm);
  groups[n++] = make_group("cartesian", comm);
  groups[n++] = make_group("all but one", split(rank == size - 1 && size > 1 ? MPI_UNDEFINED : 0, rank));
  MPI_Request request;
  MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  groups[n++] = make_group("nonblocking duplicate", comm);
  MPI_Comm_dup(groups[3].comm, &comm);
  groups[n++] = make_group("duplicate of parity", comm);
  groups[n++] = make_group("MPI_COMM_SELF", MPI_COMM_SELF);
  return n;
}

void free_groups(struct group* groups, int number) {
  for (int i = 0; i < number; ++i)
    if (groups[i].comm != MPI_COMM_NULL && groups[i].comm != MPI_COMM_WORLD &&
        groups[i].comm != MPI_COMM_SELF)
      MPI_Comm_free(&groups[i].comm);
}

static void use(const char* name, MPI_Comm comm, size_t count) {
  if (comm == MPI_COMM_NULL) return;
  const struct group group = make_group(name, comm);
  struct call call = begin_call(&group, &all_types()[count % 2], OP_SUM, count, OUT_OF_PLACE, 0);
  start_blocking(&call);
  finish_call(&call);
}

/* Two sides, one of which comes first. */
static MPI_Comm merged(int size, int side, int tag) {
  if (size < 2) return MPI_COMM_NULL;
  MPI_Comm half = split(side, 0), between, whole;
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, tag, &between);
  MPI_Intercomm_merge(between, side, &whole);
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
  return whole;
}

/* One at a time: Open MPI 4.1 itself may hang with several under way. The parent is used meanwhile. */
static void nonblocking_duplicate(MPI_Comm of, int round) {
  MPI_Comm made;
  MPI_Request request;
  int done = 0;
  MPI_Comm_idup(of, &made, &request);
  use("being duplicated", of, 30 + (size_t)round);
  while (round % 2 && !done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  use("nonblocking duplicate", made, 50 + (size_t)round);
  MPI_Comm_free(&made);
}

void churn(int rounds) {
  int rank, size;
  MPI_Comm kept = MPI_COMM_NULL;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < rounds; ++i) {
    MPI_Comm parts = split((rank + i) % 3, i % 2 ? rank : -rank), copy, whole = split(0, (rank + i) % size);
    MPI_Comm halves[2] = {merged(size, rank % 2, 2 * i), merged(size, rank % 2, 2 * i + 1)};
    use("merged halves, the second", halves[1], 200 + (size_t)i);
    use("merged halves, the first", halves[0], 77);
    if (halves[0] != MPI_COMM_NULL) MPI_Comm_free(&halves[0]);
    if (halves[1] != MPI_COMM_NULL) MPI_Comm_free(&halves[1]);
    use("churned part", parts, 100 + (size_t)i);
    MPI_Comm_dup(parts, &copy);
    MPI_Comm_free(&parts);
    use("copy of a freed one", copy, 3000);
    use("churned whole", whole, 17);
    nonblocking_duplicate(whole, i);
    if (kept != MPI_COMM_NULL) {
      use("kept from the round before", kept, 513);
      MPI_Comm_free(&kept);
    }
    kept = whole;
    MPI_Comm_free(&copy);
  }
  if (kept != MPI_COMM_NULL) MPI_Comm_free(&kept);
}

/* ---- what goes to the original ---- */

static void check_pairs(const struct group* world) {
  struct {
    double value;
    int index;
  } mine[5], best[5];
  for (int i = 0; i < 5; ++i) {
    mine[i].value = (double)((world->me * 7 + i * 3) % world->of.size);
    mine[i].index = world->me;
  }
  MPI_Allreduce(mine, best, 5, MPI_DOUBLE_INT, MPI_MINLOC, world->comm);
  for (int i = 0; i < 5; ++i) {
    double least = 1e9;
    int where = -1;
    for (int r = world->of.size - 1; r >= 0; --r) {
      const double v = (double)((r * 7 + i * 3) % world->of.size);
      if (v <= least) least = v, where = r;
    }
    if (best[i].value != least || best[i].index != where) fail("MPI_MINLOC element %d", i);
  }
  ++cases_done;
}

/* 2x2 matrices: associative, not commutative, so that the order of the ranks shows. */
static void multiply(void* in, void* inout, int* count, MPI_Datatype* type) {
  int64_t *a = in, *b = inout;
  (void)type;
  for (int i = 0; i < *count; ++i, a += 4, b += 4) {
    const int64_t p[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                          a[2] * b[1] + a[3] * b[3]};
    memcpy(b, p, sizeof p);
  }
}

static void check_user_operation(const struct group* world) {
  MPI_Datatype matrix;
  MPI_Op product;
  int64_t mine[8], got[8], want[8];
  int two = 2;
  MPI_Type_contiguous(4, MPI_INT64_T, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op_create(multiply, 0, &product);
  for (int r = world->of.size - 1; r >= 0; --r) {
    const int64_t element[8] = {1, r + 1, 0, 1, 1, 0, r % 2, 1};
    if (r == world->me) memcpy(mine, element, sizeof mine);
    if (r == world->of.size - 1) {
      memcpy(want, element, sizeof want);
    } else {
      int64_t left[8];
      memcpy(left, element, sizeof left);
      multiply(left, want, &two, &matrix);
    }
  }
  MPI_Allreduce(mine, got, two, matrix, product, world->comm);
  if (memcmp(got, want, sizeof got) != 0) fail("a user's operation on a derived type");
  MPI_Request request;
  memset(got, 0, sizeof got);
  MPI_Iallreduce(mine, got, two, matrix, product, world->comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (memcmp(got, want, sizeof got) != 0) fail("a user's operation on a derived type, nonblocking");
  MPI_Op_free(&product);
  MPI_Type_free(&matrix);
  cases_done += 2;
}

static void check_bool(const struct group* world) {
  bool mine[3] = {true, world->me == 0, false}, got[3];
  MPI_Allreduce(mine, got, 3, MPI_C_BOOL, MPI_LOR, world->comm);
  if (!got[0] || !got[1] || got[2]) fail("MPI_C_BOOL, logical or");
  ++cases_done;
}

/* What is known of one that has been freed is not taken for what is known of the next one with its handle,
 * whichever call frees it. */
static void check_handles_used_again(const struct group* world) {
  if (world->of.size < 2) return;
  const int side = world->me % 2, others = world->of.size / 2 + (side && world->of.size % 2);
  int is_used_again = 0;
  MPI_Comm half;
  MPI_Comm_split(world->comm, side, world->me, &half);
  for (int i = 0; i < 40; ++i) {
    MPI_Comm copy, between;
    int one = 1, sum = 0;
    MPI_Comm_dup(world->comm, &copy);
    const MPI_Comm handle = copy;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
    if (sum != world->of.size) fail("a copy of the world, round %d", i);
    if (i % 2)
      MPI_Comm_free(&copy);
    else
      MPI_Comm_disconnect(&copy);
    MPI_Intercomm_create(half, 0, world->comm, 1 - side, 13, &between);
    is_used_again += between == handle;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, between);
    if (sum != others) fail("an intercommunicator with a handle that is used again, round %d", i);
    MPI_Comm_free(&between);
  }
  MPI_Comm_free(&half);
  if (is_used_again == 0) fprintf(stderr, "check: no handle was used again\n");
  ++cases_done;
}

static void check_between_groups(const struct group* world) {
  if (world->of.size < 2) return;
  const int side = world->me % 2;
  MPI_Comm half, between;
  MPI_Comm_split(world->comm, side, world->me, &half);
  MPI_Intercomm_create(half, 0, world->comm, 1 - side, 11, &between);
  int mine[3] = {world->me, 1, -world->me}, got[3], sum = 0, members = 0;
  for (int r = 1 - side; r < world->of.size; r += 2)
    sum += r, ++members; /* an intercommunicator swaps the results */
  MPI_Allreduce(mine, got, 3, MPI_INT, MPI_SUM, between);
  if (got[0] != sum || got[1] != members || got[2] != -sum) fail("an intercommunicator");
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
  ++cases_done;
}

void check_passed_through(const struct group* world) {
  check_pairs(world);
  check_user_operation(world);
  check_bool(world);
  check_between_groups(world);
  check_handles_used_again(world);
}
