/* All-reduce over types x operations x counts x placement x communicators, blocking and not, every result
 * verified. An ordinary MPI program: it knows nothing of who serves its calls.
 *
 *   allreduce_matrix [--quick | --full | --large] [--only-eligible]
 *
 * --quick (default) takes seconds; --full runs every count with every type; --large is one call of more than
 * 2^31 bytes (needs some 10 GB over two ranks). --only-eligible leaves out what an engine may hand to the
 * original library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "communicators.h"

static const size_t kSmall[] = {0, 1, 2, 3, 7, 64, 1000};
static const size_t kBig[] = {4097, 65536 + 3, (1 << 20) + 1};
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void one(const struct group* group, const struct type_case* type, enum op_kind op, size_t count,
                enum placement placement) {
  static const size_t offsets[] = {0, 1, 4, 3};
  struct call call =
      begin_call(group, type, op, count, placement, offsets[(count + (size_t)op) % LENGTH(offsets)]);
  start_blocking(&call);
  finish_call(&call);
}

static void both_places(const struct group* group, const struct type_case* type, enum op_kind op,
                        size_t count) {
  one(group, type, op, count, OUT_OF_PLACE);
  one(group, type, op, count, IN_PLACE);
}

static void every_type_and_op(const struct group* group, int full) {
  int row = 0;
  for (const struct type_case* type = all_types(); type->name; ++type, ++row)
    for (int op = 0; op < OP_KINDS; ++op) {
      if (!(type->ops >> op & 1)) continue;
      for (size_t i = 0; i < LENGTH(kSmall); ++i) both_places(group, type, (enum op_kind)op, kSmall[i]);
      for (size_t i = 0; i < LENGTH(kBig); ++i)
        if (full || (i == 0 && (row + op) % 3 == 0)) both_places(group, type, (enum op_kind)op, kBig[i]);
    }
}

static void few_types(const struct group* group, int full) {
  const struct type_case* types = all_types();
  const int picked[] = {0, 1, 4, 8}; /* float, double, int16, int64 */
  for (size_t t = 0; t < LENGTH(picked); ++t)
    for (size_t i = 0; i < LENGTH(kSmall) + LENGTH(kBig); ++i) {
      const size_t count = i < LENGTH(kSmall) ? kSmall[i] : kBig[i - LENGTH(kSmall)];
      if (!full && count > 1000 && (t + i) % 2) continue;
      if (!full && count > 100000 && (t != 0 || group->of.size < 2)) continue;
      one(group, &types[picked[t]], OP_SUM, count, (enum placement)(i % 2));
      one(group, &types[picked[t]], OP_MAX, count, (enum placement)((i + 1) % 2));
    }
}

/* ---- nonblocking ---- */

enum { kInFlight = 12 };

static void finish_in_order(struct call* calls, int n, int how) {
  MPI_Request requests[kInFlight];
  int index, done[kInFlight], number;
  for (int i = 0; i < n; ++i) requests[i] = calls[i].request;
  switch (how) {
    case 0:
      MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
      break;
    case 1:
      for (int i = n - 1; i >= 0; --i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      break;
    case 2:
      for (int i = 0; i < n; ++i) MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
      break;
    case 3:
      for (int left = n; left > 0; left -= number)
        MPI_Testsome(n, requests, &number, done, MPI_STATUSES_IGNORE);
      break;
    case 4:
      for (int i = 0, flag = 0; i < n; ++i, flag = 0) /* every request once: n is 8 to 12, prime to 7 */
        while (!flag) MPI_Test(&requests[(i * 7) % n], &flag, MPI_STATUS_IGNORE);
      break;
    default:
      for (int flag = 0; !flag;) MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE);
  }
  for (int i = 0; i < n; ++i)
    if (requests[i] != MPI_REQUEST_NULL) fail("request %d is not null after completion (way %d)", i, how);
}

/* Several at once on several communicators; each rank completes them in its own way. */
static void many_in_flight(const struct group* groups, int number, int round) {
  struct call calls[kInFlight];
  int n = 0;
  for (int i = 0; i < kInFlight; ++i) {
    const struct group* group = &groups[i % number];
    if (group->comm == MPI_COMM_NULL) continue;
    const size_t count = i % 4 == 3 ? 65539 : kSmall[(size_t)(i + round) % LENGTH(kSmall)];
    calls[n] = begin_call(group, &all_types()[(i + round) % 10], OP_SUM, count, (enum placement)(i % 2), 0);
    start_nonblocking(&calls[n++]);
  }
  finish_in_order(calls, n, (round + groups[0].me) % 6);
  for (int i = 0; i < n; ++i) finish_call(&calls[i]);
}

/* A request of ours beside the library's own in one Waitall. */
static void mixed_with_messages(const struct group* world) {
  const int right = (world->me + 1) % world->of.size,
            left = (world->me + world->of.size - 1) % world->of.size;
  char given[1000], got[1000];
  memset(given, world->me, sizeof given);
  for (int way = 0; way < 3; ++way) {
    struct call call = begin_call(world, &all_types()[0], OP_SUM, 5000, OUT_OF_PLACE, 0);
    MPI_Request requests[3];
    int index;
    memset(got, -1, sizeof got);
    MPI_Irecv(got, sizeof got, MPI_CHAR, left, way, world->comm, &requests[0]);
    start_nonblocking(&call);
    requests[1] = call.request;
    MPI_Isend(given, sizeof given, MPI_CHAR, right, way, world->comm, &requests[2]);
    if (way == 0) MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; way == 1 && i < 3; ++i) MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
    for (int i = 2; way == 2 && i >= 0; --i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    if (got[0] != (char)left || got[999] != (char)left)
      fail("a message that was waited for with an all-reduce");
    finish_call(&call);
  }
}

/* ---- one call beyond 2^31 bytes ---- */

static void large(const struct group* world) {
  const size_t count = (size_t)300 << 20; /* doubles: 2.3 GiB */
  double* data = malloc(count * sizeof(double));
  if (!data) {
    fail("no memory for %zu bytes", count * sizeof(double));
    return;
  }
  for (size_t i = 0; i < count; ++i) data[i] = (double)(i % 1000003) + world->me;
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_DOUBLE, MPI_SUM, world->comm);
  const double p = world->of.size;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += data[i] != p * (double)(i % 1000003) + p * (p - 1) / 2;
  if (wrong) fail("%zu of %zu elements beyond 2^31 bytes", wrong, count);
  free(data);
  ++cases_done;
}

static void usage(void) {
  fprintf(stderr, "usage: allreduce_matrix [--quick | --full | --large] [--only-eligible]\n");
  exit(2);
}

int main(int argc, char** argv) {
  int full = 0, huge = 0, eligible = 0;
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "--full"))
      full = 1;
    else if (!strcmp(argv[i], "--large"))
      huge = 1;
    else if (!strcmp(argv[i], "--only-eligible"))
      eligible = 1;
    else if (strcmp(argv[i], "--quick"))
      usage();
  }
  MPI_Init(&argc, &argv);
  struct group groups[kMaxGroups];
  const int number = make_groups(groups);
  if (huge) {
    large(&groups[0]);
  } else {
    for (int i = 0; i < number; ++i) {
      if (groups[i].comm == MPI_COMM_NULL) continue;
      if (i == 0 || i == 2 || full) every_type_and_op(&groups[i], full);
      few_types(&groups[i], full);
    }
    for (int round = 0; round < (full ? 60 : 12); ++round) many_in_flight(groups, number, round);
    mixed_with_messages(&groups[0]);
    churn(full ? 200 : 25);
    if (!eligible) check_passed_through(&groups[0]);
  }
  free_groups(groups, number);
  const int code = report();
  MPI_Finalize();
  return code;
}
