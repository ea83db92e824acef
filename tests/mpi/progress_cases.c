/* Programs that hang when an all-reduce waits without letting the MPI library work, or agrees on something
 * with others where the standard allows them to be late. Each case has its own alarm, which names it. An
 * ordinary MPI program. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static struct group world;
static const char* volatile running = "start";
static int wait_asleep; /* the job spans hosts that the engine serves */

static void hung(int number) {
  (void)number;
  char text[200];
  const int length = snprintf(text, sizeof text, "HANGS on rank %d: %s\n", world.me, running);
  if (write(2, text, (size_t)length) < 0) _exit(5);
  _exit(4);
}

static struct call sum(const struct group* group, size_t count) {
  return begin_call(group, &all_types()[0], OP_SUM, count, OUT_OF_PLACE, 0);
}

static void all_reduce(size_t count) {
  struct call call = sum(&world, count);
  start_blocking(&call);
  finish_call(&call);
}

enum { kMessage = 8 << 20, kSmallTag = 3, kLargeTag = 4 };

static char* message(int fill) {
  char* data = malloc(kMessage);
  memset(data, fill, kMessage);
  return data;
}

static void receive(char* into, int from) {
  MPI_Recv(into, kMessage, MPI_CHAR, from, kLargeTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (into[0] != 7 || into[kMessage - 1] != 7) fail("the message around the all-reduce arrived damaged");
}

/* Rank 0's large send cannot end before rank 1 receives, which it does before its all-reduce: rank 0 has to
 * push the message out from within the all-reduce. */
static void pending_send(size_t count) {
  char* data = message(world.me == 0 ? 7 : 0);
  MPI_Request request;
  if (world.me == 0) MPI_Isend(data, kMessage, MPI_CHAR, 1, kLargeTag, MPI_COMM_WORLD, &request);
  if (world.me == 1) receive(data, 0);
  all_reduce(count);
  if (world.me == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(data);
}

static void pending_send_small(void) { pending_send(1); }
static void pending_send_large(void) { pending_send(2 << 20); }

/* The same with a message that rank 0 has not asked for yet: a probe that finds it makes no progress any
 * more. */
static void pending_send_and_unexpected(void) {
  int early = 99, got = 0;
  if (world.me == 1) MPI_Send(&early, 1, MPI_INT, 0, kSmallTag, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(20000);
  pending_send(1000);
  pending_send(1 << 20);
  if (world.me == 0) {
    MPI_Recv(&got, 1, MPI_INT, 1, kSmallTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (got != early) fail("the early message");
  }
}

/* Rank 1 enters the collective only after it has received what rank 0 sends after entering it. */
static void iallreduce_then_send(size_t count) {
  char* data = message(world.me == 0 ? 7 : 0);
  struct call call = sum(&world, count);
  if (world.me == 1) receive(data, 0);
  start_nonblocking(&call);
  if (world.me == 0) MPI_Send(data, kMessage, MPI_CHAR, 1, kLargeTag, MPI_COMM_WORLD);
  MPI_Wait(&call.request, MPI_STATUS_IGNORE);
  finish_call(&call);
  free(data);
}

static void iallreduce_then_send_small(void) { iallreduce_then_send(3); }
static void iallreduce_then_send_large(void) { iallreduce_then_send(1 << 20); }

/* The same as the first use of a new communicator: whatever is agreed there must not wait for rank 1. */
static void first_call_of_a_communicator(void) {
  MPI_Comm fresh;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  struct group group = make_group("fresh duplicate", fresh);
  char* data = message(world.me == 0 ? 7 : 0);
  struct call call = sum(&group, 100000);
  if (world.me == 1) receive(data, 0);
  start_nonblocking(&call);
  if (world.me == 0) MPI_Ssend(data, kMessage, MPI_CHAR, 1, kLargeTag, MPI_COMM_WORLD);
  MPI_Wait(&call.request, MPI_STATUS_IGNORE);
  finish_call(&call);
  free(data);
  MPI_Comm_free(&fresh);
}

static double processor_s(void) { return seconds_by(CLOCK_THREAD_CPUTIME_ID); }

/* Whoever waits for nothing but long calls between hosts may sleep, as in a blocking call; what is pending
 * goes on all the same: rank 1 comes late, and after it has received from rank 0, which waits already. */
static void large_iallreduces_with_a_late_rank(int all_at_once) {
  enum { kLate_us = 400000 };
  char* data = message(world.me == 0 ? 7 : 0);
  struct call calls[2] = {sum(&world, 1 << 20), sum(&world, 1 << 19)};
  MPI_Request send, requests[2];
  if (world.me == 0) MPI_Isend(data, kMessage, MPI_CHAR, 1, kLargeTag, MPI_COMM_WORLD, &send);
  if (world.me == 1) usleep(kLate_us), receive(data, 0);
  const double before = processor_s();
  for (int i = 0; i < 2; ++i) start_nonblocking(&calls[i]), requests[i] = calls[i].request;
  if (all_at_once) {
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  } else {
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  }
  const double took = processor_s() - before;
  if (wait_asleep && world.me != 1 && took > 0.5e-6 * kLate_us) fail("a long wait kept a processor busy");
  if (world.me == 0) MPI_Wait(&send, MPI_STATUS_IGNORE);
  for (int i = 0; i < 2; ++i) finish_call(&calls[i]);
  free(data);
}

static void wait_for_a_late_rank(void) { large_iallreduces_with_a_late_rank(0); }
static void wait_for_all_with_a_late_rank(void) { large_iallreduces_with_a_late_rank(1); }

static void opposite_orders(void) {
  MPI_Comm comms[2];
  struct group groups[2];
  for (int i = 0; i < 2; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    groups[i] = make_group("one of two", comms[i]);
  }
  for (int round = 0; round < 20; ++round) {
    const int first = (world.me + round) % 2;
    struct call calls[2] = {sum(&groups[0], 70000), sum(&groups[1], 70)};
    start_nonblocking(&calls[first]);
    start_nonblocking(&calls[1 - first]);
    MPI_Wait(&calls[first].request, MPI_STATUS_IGNORE); /* a rank's first may be the other's second */
    MPI_Wait(&calls[1 - first].request, MPI_STATUS_IGNORE);
    finish_call(&calls[0]);
    finish_call(&calls[1]);
  }
  for (int i = 0; i < 2; ++i) MPI_Comm_free(&comms[i]);
}

static void many_on_one_communicator(void) {
  enum { kMany = 100 };
  struct call calls[kMany];
  MPI_Request requests[kMany];
  for (int i = 0; i < kMany; ++i) {
    calls[i] = sum(&world, 1 + (size_t)i * 331);
    start_nonblocking(&calls[i]);
    requests[i] = calls[i].request;
  }
  MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; ++i) finish_call(&calls[i]);
}

/* A blocking call overtakes nonblocking ones on the same communicator that nobody has waited for yet. */
static void blocking_among_nonblocking(void) {
  struct call before = sum(&world, 200000), after = sum(&world, 20);
  start_nonblocking(&before);
  all_reduce(5000);
  start_nonblocking(&after);
  all_reduce(5);
  MPI_Wait(&after.request, MPI_STATUS_IGNORE);
  MPI_Wait(&before.request, MPI_STATUS_IGNORE);
  finish_call(&before);
  finish_call(&after);
}

/* MPI wants one order of blocking and nonblocking calls. Open MPI does not mind two; programs rely on it. */
static void blocking_ones_in_another_order(void) {
  static const size_t kCounts[] = {20, 200000};
  for (int round = 0; round < 60; ++round) {
    struct call calls[2];
    const int is_first = world.me == round / 2 % world.of.size, is_barrier = round % 3;
    int said = world.me == 0 ? round : -1;
    for (int turn = 0; turn < 2; ++turn) {
      if ((turn == 0) == is_first)
        for (int i = 0; i < 2; ++i) {
          calls[i] = sum(&world, kCounts[(i + round) % 2]);
          start_nonblocking(&calls[i]);
        }
      else if (is_barrier)
        MPI_Barrier(MPI_COMM_WORLD);
      else
        MPI_Bcast(&said, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int i = 0; i < 2; ++i) {
      MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE);
      finish_call(&calls[i]);
    }
    if (!is_barrier && said != round) fail("MPI_Bcast brought %d and not %d", said, round);
  }
}

struct thread_work {
  struct group group;
  size_t count;
  size_t wrong;
};

static void* reduce_often(void* argument) {
  struct thread_work* work = argument;
  float *from = malloc(work->count * sizeof(float)), *to = malloc(work->count * sizeof(float));
  const float p = (float)work->group.of.size;
  for (int round = 0; round < 100; ++round) {
    for (size_t i = 0; i < work->count; ++i) from[i] = (float)(work->group.me + round) + (float)(i % 100);
    MPI_Allreduce(from, to, (int)work->count, MPI_FLOAT, MPI_SUM, work->group.comm);
    for (size_t i = 0; i < work->count; ++i)
      work->wrong += to[i] != p * (p - 1) / 2 + p * ((float)round + (float)(i % 100));
  }
  free(from);
  free(to);
  return NULL;
}

static void two_threads(void) {
  pthread_t threads[2];
  struct thread_work work[2];
  MPI_Comm comms[2];
  for (int i = 0; i < 2; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    work[i] = (struct thread_work){make_group("a thread's own", comms[i]), i ? 40000 : 10, 0};
  }
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, reduce_often, &work[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; ++i) {
    if (work[i].wrong) fail("thread %d got %zu wrong elements", i, work[i].wrong);
    MPI_Comm_free(&comms[i]);
    ++cases_done;
  }
}

static void run(const char* name, void (*body)(void)) {
  running = name;
  alarm(30);
  body();
  MPI_Barrier(MPI_COMM_WORLD);
  alarm(0);
  if (world.me == 0) printf("done: %s\n", name), fflush(stdout);
}

int main(int argc, char** argv) {
  const int threads = argc > 1 && !strcmp(argv[1], "--threads");
  wait_asleep = argc > 1 && !strcmp(argv[1], "--asleep");
  int provided = MPI_THREAD_SINGLE;
  if (threads)
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  else
    MPI_Init(&argc, &argv);
  world = make_group("MPI_COMM_WORLD", MPI_COMM_WORLD);
  signal(SIGALRM, hung);
  if (world.of.size < 2) {
    fprintf(stderr, "progress_cases: needs at least two ranks\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  run("a large send pending across a small all-reduce", pending_send_small);
  run("a large send pending across a large all-reduce", pending_send_large);
  run("the same with an unexpected message queued", pending_send_and_unexpected);
  run("small Iallreduce, Send against Recv, Iallreduce", iallreduce_then_send_small);
  run("large Iallreduce, Send against Recv, Iallreduce", iallreduce_then_send_large);
  run("the same in the first call of a communicator", first_call_of_a_communicator);
  run("large Iallreduces, one rank late, Wait", wait_for_a_late_rank);
  run("large Iallreduces, one rank late, Waitall", wait_for_all_with_a_late_rank);
  run("two communicators in opposite orders", opposite_orders);
  run("a hundred in flight on one communicator", many_on_one_communicator);
  run("blocking calls among nonblocking ones", blocking_among_nonblocking);
  run("blocking calls before nonblocking ones, and after them", blocking_ones_in_another_order);
  if (threads && provided == MPI_THREAD_MULTIPLE) run("two threads on two communicators", two_threads);
  const int code = report();
  MPI_Finalize();
  return code;
}
