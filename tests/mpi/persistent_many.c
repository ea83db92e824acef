/* Many persistent all-reduces, each started again and again by each rank in an order of its own, among
 * nonblocking and blocking calls: what a program may do whose all-reduces are fused (DDL_LAZY_BYTES). An
 * ordinary MPI program.
 *
 *   persistent_many [--alone | --freed]
 *
 * --alone makes the persistent calls alone, so that a report is about them; --freed also frees what is under
 * way, which Open MPI 4.1 does not outlive. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "persistent_names.h"

enum { kMany = 600, kRounds = 4, kLongest = 20000 };

static int rank, ranks, failures;
static const char* volatile running = "start";
static unsigned dice = 1; /* of this rank alone */

static unsigned roll(void) {
  dice = dice * 1103515245u + 12345u;
  return dice >> 16;
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
  int count, number, starts, is_self; /* the last: of this rank alone */
  void *in, *out;                     /* the same: in place */
  MPI_Request request;
};

static int share(const struct call* call, int from, int i) {
  return (from * 31 + i * 7 + call->number * 13 + call->starts * 3) % 64;
}

static double at(const struct call* call, int i) {
  if (call->type == MPI_INT) return ((const int*)call->out)[i];
  return call->type == MPI_FLOAT ? ((const float*)call->out)[i] : ((const double*)call->out)[i];
}

static void put(struct call* call, int i, int value) {
  if (call->type == MPI_INT) ((int*)call->in)[i] = value;
  if (call->type == MPI_FLOAT) ((float*)call->in)[i] = (float)value;
  if (call->type == MPI_DOUBLE) ((double*)call->in)[i] = value;
}

static void add(void* in, void* inout, int* n, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *n; ++i) ((int*)inout)[i] += ((int*)in)[i];
}
static MPI_Op own_sum;

/* What the one of that number is: the same on all ranks. Some are none that a rule of fusion takes. */
static void prepare(struct call* call, int number) {
  const MPI_Datatype types[] = {MPI_FLOAT, MPI_FLOAT, MPI_DOUBLE, MPI_INT};
  call->type = types[number * 7 % 4];
  call->count = number % 50 == 11 ? kLongest : number % 90 == 17 ? 0 : 1 + number * 37 % 300;
  call->number = number;
  call->starts = call->is_self = 0;
  call->out = malloc((size_t)call->count * 8 + 8);
  call->in = number % 3 == 0 ? call->out : malloc((size_t)call->count * 8 + 8);
}

static void make(struct call* call, int number, MPI_Comm comm) {
  prepare(call, number);
  call->is_self = comm == MPI_COMM_SELF;
  const int is_own = number % 40 == 3 && call->type == MPI_INT;
  MPI_Allreduce_init(call->in == call->out ? MPI_IN_PLACE : call->in, call->out, call->count, call->type,
                      is_own ? own_sum : MPI_SUM, comm, MPI_INFO_NULL, &call->request);
}

static void fill(struct call* call) {
  ++call->starts;
  for (int i = 0; i < call->count; ++i) put(call, i, share(call, rank, i));
}

static void start(struct call* call) {
  fill(call);
  MPI_Start(&call->request);
}

static void verify(const struct call* call) {
  for (int i = 0; i < call->count; ++i) {
    double sum = 0;
    for (int from = 0; from < ranks; ++from) sum += call->is_self && from != rank ? 0 : share(call, from, i);
    if (at(call, i) == sum) continue;
    if (++failures < 5)
      fprintf(stderr, "rank %d: %s: request %d, start %d, element %d is %g and not %g\n", rank, running,
              call->number, call->starts, i, at(call, i), sum);
    return;
  }
}

static void finish(struct call* call) {
  MPI_Wait(&call->request, MPI_STATUS_IGNORE);
  verify(call);
}

static void drop(struct call* call) {
  MPI_Request_free(&call->request);
  if (call->in != call->out) free(call->in);
  free(call->out);
}

/* In any order: one that this rank alone has. */
static void shuffle(int* order, int n) {
  for (int i = 0; i < n; ++i) order[i] = i;
  for (int i = n; i-- > 1;) {
    const int other = (int)(roll() % (unsigned)(i + 1)), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
}

/* Ends requests in one of MPI's ways. A request that is complete and stays there is inactive. */
static void wait_for(int n, MPI_Request* requests, unsigned way) {
  int done = 0, index = 0, some = 0, indices[kMany];
  switch (way % 4) {
    case 0:
      MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
      return;
    case 1:
      for (int i = n; i-- > 0;) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      return;
    case 2:
      for (int i = 0; i < n; i += some) MPI_Waitsome(n, requests, &some, indices, MPI_STATUSES_IGNORE);
      return;
    default:
      for (int i = 0; i < n; i += done) MPI_Testany(n, requests, &index, &done, MPI_STATUS_IGNORE);
  }
}

/* Part of each round by MPI_Startall, the rest one by one; among them, where asked for, other calls of the
 * communicator, which have one order. */
static void in_any_order(MPI_Comm comm, int with_others) {
  static struct call calls[kMany];
  int order[kMany];
  MPI_Request requests[kMany];
  for (int i = 0; i < kMany; ++i) make(&calls[i], i, comm);
  for (int round = 0; round < kRounds; ++round) {
    struct call others[10];
    shuffle(order, kMany);
    const int together = round * kMany / (kRounds - 1);
    for (int i = 0; i < kMany; ++i) requests[i] = calls[order[i]].request;
    for (int i = 0; i < together; ++i) fill(&calls[order[i]]);
    MPI_Startall(together, requests);
    for (int i = together; i < kMany; ++i) start(&calls[order[i]]);
    for (int i = 0; with_others && i < 10; ++i) {
      double one = 1, sum = 0;
      prepare(&others[i], 1000 + i);
      fill(&others[i]);
      MPI_Iallreduce(others[i].in == others[i].out ? MPI_IN_PLACE : others[i].in, others[i].out,
                     others[i].count, others[i].type, MPI_SUM, comm, &others[i].request);
      if (i % 4 == 1) MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
      if (i % 4 == 1 && sum != ranks) ++failures, fprintf(stderr, "a blocking call in between is wrong\n");
    }
    wait_for(kMany, requests, (unsigned)(rank + round));
    for (int i = 0; i < kMany; ++i) verify(&calls[i]);
    for (int i = 0; with_others && i < 10; ++i) {
      finish(&others[i]);
      if (others[i].in != others[i].out) free(others[i].in);
      free(others[i].out);
    }
  }
  shuffle(order, kMany);
  for (int i = 0; i < kMany; ++i) drop(&calls[order[i]]);
}

/* Rank 0 runs ahead; the others wait for the sixth before they start any other. */
static void others_after_the_sixth(void) {
  struct call calls[10];
  for (int i = 0; i < 10; ++i) make(&calls[i], i, MPI_COMM_WORLD);
  for (int round = 0; round < 20; ++round) {
    if (rank != 0) start(&calls[5]), finish(&calls[5]);
    for (int i = 0; i < 10; ++i) {
      const int next = rank == 0 ? i : 9 - i;
      if (rank == 0 || next != 5) start(&calls[next]);
    }
    for (int i = 0; i < 10; ++i)
      if (rank == 0 || i != 5) finish(&calls[i]);
  }
  for (int i = 0; i < 10; ++i) drop(&calls[i]);
}

/* At first no two ranks have started the same. */
static void each_another_first(void) {
  struct call calls[8];
  for (int i = 0; i < 8; ++i) make(&calls[i], i, MPI_COMM_WORLD);
  for (int round = 0; round < 10; ++round) {
    int done = 0;
    start(&calls[rank % 8]);
    for (int i = 0; i < 100; ++i) MPI_Test(&calls[rank % 8].request, &done, MPI_STATUS_IGNORE);
    if (rank % 2) usleep(5000); /* computes */
    for (int i = 1; i < 8; ++i) start(&calls[(rank + i) % 8]);
    for (int i = 0; i < 8; ++i) finish(&calls[i]);
  }
  for (int i = 0; i < 8; ++i) drop(&calls[i]);
}

/* The communicator goes before its requests, and requests while they are under way. */
static void freed(void) {
  static struct call calls[20];
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int i = 0; i < 20; ++i) make(&calls[i], i, comm);
  MPI_Comm_free(&comm);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) start(&calls[(i + rank * 7) % 20]);
    for (int i = 0; i < 20; ++i) finish(&calls[i]);
  }
  for (int i = 0; i < 20; ++i) {
    start(&calls[(i + rank * 7) % 20]);
    MPI_Request_free(&calls[(i + rank * 7) % 20].request);
  }
}

/* Made, started and freed again and again, while one stays; and that one is there still at the end. */
static void made_again(void) {
  static struct call stays;
  make(&stays, 1, MPI_COMM_WORLD);
  for (int i = 0; i < kMany; ++i) {
    struct call one;
    make(&one, i, MPI_COMM_WORLD);
    start(rank % 2 ? &stays : &one);
    start(rank % 2 ? &one : &stays);
    finish(&one);
    finish(&stays);
    drop(&one);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int is_alone = argc > 1 && strcmp(argv[1], "--alone") == 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Op_create(add, 1, &own_sum);
  dice += (unsigned)rank * 97;
  signal(SIGALRM, hung);
  alarm(200);
  running = "in any order";
  in_any_order(MPI_COMM_WORLD, !is_alone);
  if (!is_alone) {
    running = "of one rank";
    in_any_order(MPI_COMM_SELF, 0);
    running = "others after the sixth";
    others_after_the_sixth();
    running = "each another first";
    each_another_first();
  }
  if (argc > 1 && strcmp(argv[1], "--freed") == 0) {
    running = "freed";
    freed();
    running = "made again";
    made_again();
  }
  running = "the end";
  MPI_Op_free(&own_sum);
  MPI_Finalize();
  return failures ? 1 : 0;
}
