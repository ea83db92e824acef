/* stalls CASE SECONDS [RANK]: rank 1, or that one, does not come to where the others are, for so long or
 * until SIGUSR1 comes, or for ever. Those that never meet are ended by an alarm, or by that signal. Who stops
 * is woken by somebody else. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Depends on the order, so that the engine leaves it to the original. */
static void last(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)in, (void)inout, (void)count, (void)type;
}

static void expect(int all, int size) {
  if (all == size) return;
  fprintf(stderr, "wrong: %d of %d\n", all, size);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void sum(MPI_Comm comm) {
  int one = 1, all = 0, size = 0;
  MPI_Comm_size(comm, &size);
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
  expect(all, size);
}

static int is(const char* what, const char* name) { return strcmp(what, name) == 0; }

/* Between hosts these are made of others: short blocks are padded, few bytes are reduced by all ranks. */
static void exchange(void) {
  enum { most = 8 };
  int in[most] = {1, 1, 1, 1, 1, 1, 1, 1}, out[most] = {0}, counts[most], places[most], size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < size; ++i) counts[i] = 1, places[i] = i;
  MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < size; ++i) expect(out[i], 1);
}

static void sum_of_mine(void) {
  int in[8] = {1, 1, 1, 1, 1, 1, 1, 1}, mine = 0, size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Reduce_scatter_block(in, &mine, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(mine, size);
}

/* Those that come in the end. */
static int comes_late(const char* what, int is_late, unsigned seconds) {
  int one = 1, all = 0;
  MPI_Request request;
  if (is(what, "late")) {
    if (is_late) sleep(seconds);
    sum(MPI_COMM_WORLD);
  } else if (is(what, "late_wait")) {
    if (is_late) sleep(seconds);
    MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (is(what, "late_exchange") || is(what, "late_reduce_scatter")) {
    void (*call)(void) = is(what, "late_exchange") ? exchange : sum_of_mine;
    for (int i = 0; i < 3; ++i) call();
    if (is_late) sleep(seconds);
    call();
  } else if (is(what, "late_finalize")) {
    if (is_late) sleep(seconds);
  } else if (is(what, "stop")) {
    if (is_late) raise(SIGSTOP);
    sum(MPI_COMM_WORLD);
  } else if (is(what, "stop_finalize")) {
    if (is_late) raise(SIGSTOP);
  } else {
    return is(what, "stop_init") || is(what, "late_init");
  }
  return 1;
}

static void comes_now(int signal) { (void)signal; } /* sleep() ends */

static void never_meets(const char* what, int is_late, MPI_Comm other) {
  int value = 0, result = 0;
  MPI_Op op;
  MPI_Op_create(last, 0, &op);
  if (is(what, "finalize")) {
    if (!is_late) sum(MPI_COMM_WORLD);
  } else if (is(what, "order")) {
    sum(is_late ? other : MPI_COMM_WORLD);
    sum(is_late ? MPI_COMM_WORLD : other);
  } else if (is(what, "original")) {
    if (is_late)
      MPI_Allreduce(&value, &result, 1, MPI_INT, op, MPI_COMM_WORLD);
    else
      MPI_Bcast(&value, 1, MPI_INT, 1, MPI_COMM_WORLD);
  } else if (is(what, "kinds")) {
    int all[] = {1, 2, 3};
    if (is_late)
      MPI_Scatter(all, 1, MPI_INT, &value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    else
      sum(MPI_COMM_WORLD);
  } else if (is(what, "contradiction")) { /* it sends less than it wants from everybody */
    int all[6];
    MPI_Allgather(&value, 1, MPI_INT, all, is_late ? 2 : 1, MPI_INT, MPI_COMM_WORLD);
  } else if (is(what, "own_length")) { /* the root, which is late, has more room than it sends */
    int all[6];
    MPI_Gather(&value, 1, MPI_INT, all, 2, MPI_INT, 1, MPI_COMM_WORLD);
  } else if (is(what, "other_length")) {
    int all[6], counts[] = {2, 1, 1}, places[] = {0, 2, 4};
    MPI_Gatherv(&value, 1, MPI_INT, all, counts, places, MPI_INT, 1, MPI_COMM_WORLD);
  } else if (is(what, "longer_here")) { /* all hear from the root alone */
    int values[2] = {0};
    MPI_Bcast(values, is_late ? 2 : 1, MPI_INT, 0, MPI_COMM_WORLD);
    sum(MPI_COMM_WORLD);
  } else if (is(what, "originals")) {
    MPI_Allreduce(&value, &result, 1, MPI_INT, op, is_late ? other : MPI_COMM_WORLD);
  } else if (is(what, "receive")) {
    if (is_late) MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sum(MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char *what = argv[1], *rank_here = getenv("OMPI_COMM_WORLD_RANK");
  const unsigned seconds = (unsigned)atoi(argv[2]);
  const int late = argc > 3 ? atoi(argv[3]) : 1;
  const int is_late = rank_here && atoi(rank_here) == late;
  signal(SIGUSR1, comes_now);
  if (is_late && is(what, "stop_init")) raise(SIGSTOP);
  if (is_late && is(what, "late_init")) sleep(seconds);
  MPI_Init(&argc, &argv);
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  for (int i = 0; i < 5; ++i) sum(MPI_COMM_WORLD);
  sum(other);
  if (!comes_late(what, is_late, seconds)) {
    alarm(seconds);
    signal(SIGUSR1, SIG_DFL);
    never_meets(what, is_late, other);
  }
  MPI_Finalize();
  return 0;
}
