/* Many nonblocking all-reduces, waited for in every way that MPI has, on two communicators, among blocking
 * calls and messages: what a program may do whose all-reduces are fused (DDL_LAZY_BYTES). An ordinary MPI
 * program. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kMost = 64, kRounds = 25, kLongest = 20000 };

static int rank, ranks, failures;
static const char* volatile running = "start";
static unsigned dice = 1;   /* of this rank alone: ranks wait in different orders */
static unsigned shared = 7; /* the same on all: what is called */

static unsigned roll(unsigned* state) {
  *state = *state * 1103515245u + 12345u;
  return *state >> 16;
}

static void hung(int number) {
  (void)number;
  char text[200];
  const int length = snprintf(text, sizeof text, "HANGS on rank %d: %s\n", rank, running);
  if (write(2, text, (size_t)length) < 0) _exit(5);
  _exit(4);
}

struct call {
  MPI_Datatype type;
  int count, number, is_in_place;
  void *in, *out;
  MPI_Request request;
};

static int share(int from, int i, int number) { return (from * 31 + i * 7 + number * 13) % 64; }

static double at(const void* data, MPI_Datatype type, int i) {
  if (type == MPI_INT) return ((const int*)data)[i];
  return type == MPI_FLOAT ? ((const float*)data)[i] : ((const double*)data)[i];
}

static void put(void* data, MPI_Datatype type, int i, int value) {
  if (type == MPI_INT) ((int*)data)[i] = value;
  if (type == MPI_FLOAT) ((float*)data)[i] = (float)value;
  if (type == MPI_DOUBLE) ((double*)data)[i] = value;
}

/* What the call of that number is: the same on all ranks. */
static void prepare(struct call* call, int number) {
  const MPI_Datatype types[] = {MPI_FLOAT, MPI_FLOAT, MPI_DOUBLE, MPI_INT};
  call->type = types[roll(&shared) % 4];
  call->count = (int)(roll(&shared) % 8 ? 1 + roll(&shared) % 500 : 1 + roll(&shared) % kLongest);
  call->number = number;
  call->is_in_place = (int)(roll(&shared) % 2);
  call->out = malloc((size_t)call->count * 8);
  call->in = call->is_in_place ? call->out : malloc((size_t)call->count * 8);
  for (int i = 0; i < call->count; ++i) put(call->in, call->type, i, share(rank, i, number));
}

static void start(struct call* call, MPI_Comm comm) {
  MPI_Iallreduce(call->is_in_place ? MPI_IN_PLACE : call->in, call->out, call->count, call->type, MPI_SUM,
                 comm, &call->request);
}

static void finish(struct call* call) {
  for (int i = 0; i < call->count; ++i) {
    double sum = 0;
    for (int from = 0; from < ranks; ++from) sum += share(from, i, call->number);
    if (at(call->out, call->type, i) == sum) continue;
    if (++failures < 5)
      fprintf(stderr, "rank %d: %s: call %d, element %d is %g and not %g\n", rank, running, call->number, i,
              at(call->out, call->type, i), sum);
    break;
  }
  if (!call->is_in_place) free(call->in);
  free(call->out);
}

/* Ends all of them, in one of MPI's ways. */
static void wait_for(int n, MPI_Request* requests, unsigned way) {
  int done = 0, index = 0, some = 0, indices[kMost];
  switch (way % 7) {
    case 0:
      MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
      return;
    case 1:
      for (int i = 0; i < n; ++i) MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
      return;
    case 2:
      for (int i = 0; i < n; i += some) MPI_Waitsome(n, requests, &some, indices, MPI_STATUSES_IGNORE);
      return;
    case 3:
      for (int i = n; i-- > 0;) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      return;
    case 4:
      for (int i = 0; i < n; ++i)
        for (done = 0; !done;) MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
      return;
    case 5:
      while (!done) MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
      return;
    default:
      for (int i = 0; i < n; i += done) MPI_Testany(n, requests, &index, &done, MPI_STATUS_IGNORE);
  }
}

static void wait_for_calls(struct call* calls, int n, unsigned way) {
  MPI_Request requests[kMost];
  for (int i = 0; i < n; ++i) requests[i] = calls[i].request;
  wait_for(n, requests, way);
  for (int i = 0; i < n; ++i) finish(&calls[i]);
}

static void in_all_ways(MPI_Comm other) {
  struct call calls[kMost];
  for (int round = 0; round < kRounds; ++round) {
    const int n = 1 + (int)(roll(&shared) % kMost);
    for (int i = 0; i < n; ++i) {
      prepare(&calls[i], i);
      start(&calls[i], roll(&shared) % 3 ? MPI_COMM_WORLD : other);
      if (roll(&shared) % 16 == 0) {
        double one = 1, sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, roll(&shared) % 2 ? MPI_COMM_WORLD : other);
        if (sum != ranks) ++failures, fprintf(stderr, "rank %d: a blocking call in between is wrong\n", rank);
      }
    }
    wait_for_calls(calls, n, roll(&dice));
  }
}

/* Rank 0 runs ahead and waits for the third of five; the others start the fourth after they have waited for
 * the third. */
static void fourth_after_the_third(void) {
  struct call calls[5];
  for (int i = 0; i < 5; ++i) prepare(&calls[i], i);
  for (int i = 0; i < (rank == 0 ? 5 : 3); ++i) start(&calls[i], MPI_COMM_WORLD);
  MPI_Wait(&calls[2].request, MPI_STATUS_IGNORE);
  for (int i = 3; rank != 0 && i < 5; ++i) start(&calls[i], MPI_COMM_WORLD);
  for (int i = 5; i-- > 0;) MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE);
  for (int i = 0; i < 5; ++i) finish(&calls[i]);
}

/* Who has started a call need not come back to it for another to end it. */
static void ends_while_others_are_elsewhere(void) {
  struct call call;
  char token = 0;
  prepare(&call, 1);
  start(&call, MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    for (int to = 1; to < ranks; ++to) MPI_Send(&token, 1, MPI_CHAR, to, 0, MPI_COMM_WORLD);
  } else {
    if (rank % 2) usleep(20000); /* computes */
    MPI_Recv(&token, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
  }
  finish(&call);
}

/* The communicator is gone before its calls are done. */
static void freed_communicator(void) {
  struct call calls[20];
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int i = 0; i < 20; ++i) {
    prepare(&calls[i], i);
    start(&calls[i], comm);
  }
  MPI_Comm_free(&comm);
  wait_for_calls(calls, 20, roll(&dice));
}

int main(int argc, char** argv) {
  MPI_Comm other;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  dice += (unsigned)rank * 97;
  signal(SIGALRM, hung);
  alarm(120);
  running = "waits in all ways";
  in_all_ways(other);
  running = "the fourth call after the third";
  for (int i = 0; i < 20; ++i) fourth_after_the_third();
  running = "others are elsewhere";
  for (int i = 0; i < 20; ++i) ends_while_others_are_elsewhere();
  running = "a freed communicator";
  for (int i = 0; i < 20; ++i) freed_communicator();
  MPI_Comm_free(&other);
  MPI_Finalize();
  return failures ? 1 : 0;
}
