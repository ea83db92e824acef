/* Collectives with a count for every rank, and persistent ones, in surroundings that are not everyday: error
 * handlers, threads, intercommunicators, spawned processes. An ordinary MPI program: it knows nothing of who
 * serves its calls.
 *
 *   surroundings errors|single|funneled|serialized|multiple|groups|spawn */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "persistent_names.h"

enum { kMost = 16, kInts = 50 };
static int rank, size, handled;
static long failures;

static void check(int right, const char* what) {
  if (!right && __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) < 10)
    fprintf(stderr, "check: rank %d: %s\n", rank, what);
}

static void on_error(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  ++handled;
}

/* What all ranks call wrongly is refused on all, by the handler that the program chose. */
static void errors(void) {
  int in[kInts] = {0}, out[kMost * kInts], counts[kMost], places[kMost] = {0};
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Errhandler handler;
  MPI_Comm comm;
  MPI_Comm_create_errhandler(on_error, &handler);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int own = 0; own < 2; ++own) {
    MPI_Comm_set_errhandler(comm, own ? handler : MPI_ERRORS_RETURN);
    const int before = handled;
    for (int r = 0; r < kMost; ++r) counts[r] = 1;
    check(MPI_Allgatherv(in, 1, MPI_INT, out, counts, NULL, MPI_INT, comm) != MPI_SUCCESS, "no places");
    check(MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_OP_NULL, comm) != MPI_SUCCESS, "no operation");
    check(MPI_Reduce_scatter(in, out, NULL, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS, "no counts to scatter");
    check(MPI_Gatherv(in, 1, MPI_INT, out, counts, places, MPI_INT, size, comm) != MPI_SUCCESS,
          "a root too high");
    check(MPI_Scatterv(in, counts, places, MPI_INT, out, 1, MPI_INT, -5, comm) != MPI_SUCCESS,
          "a root too low");
    check(MPI_Alltoallv(in, NULL, places, MPI_INT, out, counts, places, MPI_INT, comm) != MPI_SUCCESS,
          "no counts");
    check(MPI_Ialltoallv(in, counts, places, MPI_INT, out, counts, NULL, MPI_INT, comm, &request) !=
              MPI_SUCCESS,
          "no places of a nonblocking call");
    check(!own || handled > before, "the handler is not called");
    const int called = handled;
    for (int r = 0; r < size; ++r) places[r] = r;
    in[0] = rank;
    check(MPI_Allgatherv(in, 1, MPI_INT, out, counts, places, MPI_INT, comm) == MPI_SUCCESS, "a right call");
    for (int r = 0; r < size; ++r) check(out[r] == r, "a right call after wrong ones");
    check(handled == called, "the handler is called for a right one");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Start(NULL) != MPI_SUCCESS, "a start without a request");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&comm);
}

/* Calls of all sorts on one communicator; pairs have lengths of their own. */
static void calls_on(MPI_Comm comm, int rounds) {
  int me, ranks, in[kMost * kInts], out[kMost * kInts], own[kInts], counts[kMost], places[kMost], sum = -1,
                                                                                                  mine;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  MPI_Request request, persistent;
  MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &persistent);
  for (int round = 0; round < rounds; ++round) {
    mine = me + round;
    MPI_Start(&persistent);
    for (int r = 0; r < ranks; ++r) counts[r] = (r + round) % 3 * 7, places[r] = r * kInts;
    for (int i = 0; i < kInts; ++i) own[i] = me * 100 + i + round;
    MPI_Allgatherv(own, counts[me], MPI_INT, out, counts, places, MPI_INT, comm);
    for (int r = 0; r < ranks; ++r)
      for (int i = 0; i < counts[r]; ++i) check(out[places[r] + i] == r * 100 + i + round, "allgatherv");
    for (int r = 0; r < ranks; ++r) counts[r] = (r + me + round) % 4 * 5;
    for (int i = 0; i < ranks * kInts; ++i) in[i] = me * 1000 + i + round;
    MPI_Ialltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < ranks; ++r)
      for (int i = 0; i < counts[r]; ++i)
        check(out[places[r] + i] == r * 1000 + me * kInts + i + round, "alltoallv");
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    check(sum == ranks * (ranks - 1) / 2 + ranks * round, "persistent all-reduce");
  }
  MPI_Request_free(&persistent);
}

static void* in_thread(void* comm) {
  calls_on(*(MPI_Comm*)comm, 15);
  return NULL;
}

static void threads(void) {
  enum { kThreads = 3 };
  MPI_Comm comms[kThreads];
  pthread_t started[kThreads];
  for (int t = 0; t < kThreads; ++t) MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
  for (int t = 0; t < kThreads; ++t) pthread_create(&started[t], NULL, in_thread, &comms[t]);
  for (int t = 0; t < kThreads; ++t) pthread_join(started[t], NULL);
  for (int t = 0; t < kThreads; ++t) MPI_Comm_free(&comms[t]);
}

/* Rank r of one side gets a block of each of the other. */
static void between(MPI_Comm comm, int me, int others) {
  int in[kMost * 2] = {0}, out[kMost * 2], counts[kMost] = {0}, places[kMost] = {0};
  for (int r = 0; r < others; ++r) counts[r] = 2, places[r] = 2 * r;
  for (int i = 0; i < 2 * others; ++i) in[i] = me * 100 + i, out[i] = -1;
  MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, comm);
  for (int r = 0; r < others; ++r)
    for (int i = 0; i < 2; ++i) check(out[2 * r + i] == r * 100 + 2 * me + i, "alltoallv between groups");
  MPI_Allgatherv(in, 2, MPI_INT, out, counts, places, MPI_INT, comm);
  for (int r = 0; r < others; ++r) check(out[2 * r] == r * 100, "allgatherv between groups");
}

static void groups(void) {
  MPI_Comm half, both;
  int me, others;
  if (size < 2) return;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &both);
  MPI_Comm_rank(half, &me);
  MPI_Comm_remote_size(both, &others);
  between(both, me, others);
  calls_on(half, 3);
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

static void spawn(char* self) {
  char* arguments[] = {"spawned", NULL};
  MPI_Comm children, all;
  MPI_Comm_spawn(self, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  between(children, rank, 2);
  MPI_Intercomm_merge(children, 0, &all);
  calls_on(all, 3);
  calls_on(MPI_COMM_WORLD, 3);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&children);
}

static void spawned(void) {
  MPI_Comm parents, all;
  int others;
  MPI_Comm_get_parent(&parents);
  MPI_Comm_remote_size(parents, &others);
  between(parents, rank, others);
  MPI_Intercomm_merge(parents, 1, &all);
  calls_on(all, 3);
  calls_on(MPI_COMM_WORLD, 3);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&parents);
}

static int level_of(const char* what) {
  if (strcmp(what, "funneled") == 0) return MPI_THREAD_FUNNELED;
  if (strcmp(what, "serialized") == 0) return MPI_THREAD_SERIALIZED;
  return strcmp(what, "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "single";
  int level;
  MPI_Init_thread(&argc, &argv, level_of(what), &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "errors") == 0) errors();
  if (strcmp(what, "multiple") == 0 && level == MPI_THREAD_MULTIPLE) threads();
  if (strcmp(what, "groups") == 0) groups();
  if (strcmp(what, "spawn") == 0) spawn(argv[0]);
  if (strcmp(what, "spawned") == 0)
    spawned();
  else
    calls_on(MPI_COMM_WORLD, 5);
  long all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && strcmp(what, "spawned") != 0) printf("check: %s: %ld failures\n", what, all);
  MPI_Finalize();
  return all ? 1 : 0;
}
