/* client RANKS processes|threads|all|duplicate|late|killed|version: runs every case, prints a line per rank
 * and what rank 0's process called; exits with 0 when all is right. */
#define _GNU_SOURCE
#include "tests/nccl/client.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kMostRanks = 16 };

static int size;

/* Where the ranks of one machine find the id. */
struct board {
  ncclUniqueId id;
  int ready;
};
static struct board* board;

void one_rank(int rank) {
  ncclComm_t comm = NULL;
  if (rank == 0) {
    expect("ncclGetUniqueId", ncclGetUniqueId(&board->id), ncclSuccess);
    __atomic_store_n(&board->ready, 1, __ATOMIC_RELEASE);
  }
  while (!__atomic_load_n(&board->ready, __ATOMIC_ACQUIRE)) usleep(1000);
  expect("ncclCommInitRank", ncclCommInitRank(&comm, size, board->id, rank), ncclSuccess);
  if (!comm) return;
  printf("rank %d: %016llx\n", rank, (unsigned long long)all_cases(comm));
  expect("ncclCommFinalize", ncclCommFinalize(comm), ncclSuccess);
  expect("ncclCommDestroy", ncclCommDestroy(comm), ncclSuccess);
}

/* One thread drives all communicators, `made` in a group or by ncclCommInitAll, with a group around each
 * call. */
static void one_thread(ncclComm_t* comms) {
  double* data[kMostRanks];
  double sum = 0;
  for (int r = 0; r < size; ++r) data[r] = values(r, 5000);
  for (int round = 0; round < 3; ++round) {
    expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
    for (int r = 0; r < size; ++r)
      CALL(ncclAllReduce, 40000, data[r], data[r], 5000, ncclFloat64, round ? ncclMax : ncclSum, comms[r],
           NULL);
    expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  }
  for (int r = 0; r < size; ++r) sum += value(r, 11);
  for (int r = 0; r < size; ++r) check(data[r][11] == sum, "a sum of one thread's communicators");
  printf("all: %016llx\n", (unsigned long long)hash(1, data[0], 40000));
  for (int r = 0; r < size; ++r) expect("ncclCommDestroy", ncclCommDestroy(comms[r]), ncclSuccess);
  for (int r = 0; r < size; ++r) free(data[r]);
}

static void all(void) {
  ncclComm_t comms[kMostRanks] = {NULL};
  ncclUniqueId id;
  expect("ncclCommInitAll", ncclCommInitAll(comms, size, NULL), ncclSuccess);
  one_thread(comms);
  expect("ncclGetUniqueId", ncclGetUniqueId(&id), ncclSuccess);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < size; ++r) expect("init", ncclCommInitRank(comms + r, size, id, r), ncclSuccess);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  one_thread(comms);
  print_tally();
}

/* Two ranks on one device: refused, with a reason. */
static void duplicate(void) {
  ncclComm_t comms[kMostRanks] = {NULL};
  int devices[kMostRanks] = {0};
  expect("duplicate", ncclCommInitAll(comms, size, devices), ncclInvalidUsage);
  printf("%s\n", ncclGetLastError(NULL));
}

/* A nonblocking communicator: in progress until it is ready. */
static void late(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  ncclUniqueId id;
  ncclResult_t state = ncclInProgress;
  double in[3] = {1, 2, 3};
  config.blocking = 0;
  expect("ncclGetUniqueId", ncclGetUniqueId(&id), ncclSuccess);
  expect("nonblocking", ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  while (state == ncclInProgress) {
    expect("ncclCommGetAsyncError", ncclCommGetAsyncError(comm, &state), ncclSuccess);
    sched_yield();
  }
  expect("state", state, ncclSuccess);
  CALL(ncclAllReduce, 24, in, in, 3, ncclFloat64, ncclSum, comm, NULL);
  check(in[2] == 3, "a sum of one");
  expect("ncclCommDestroy", ncclCommDestroy(comm), ncclSuccess);
  print_tally();
}

/* Dies with a communicator, as soon as the report that is kept meanwhile shows a call; or never comes to show
 * one. */
static void killed(void) {
  ncclComm_t comm = NULL;
  ncclUniqueId id;
  double in[3] = {1, 2, 3};
  expect("ncclGetUniqueId", ncclGetUniqueId(&id), ncclSuccess);
  expect("ncclCommInitRank", ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  for (int i = 0; i < 1000; ++i) {
    CALL(ncclAllReduce, 24, in, in, 3, ncclFloat64, ncclSum, comm, NULL);
    if (system("grep -q '\"calls\": [1-9]' \"$DDL_REPORT\" 2>/dev/null") == 0) raise(SIGKILL);
    usleep(10000);
  }
  wrong = 1;
}

static void version(void) {
  int code = 0;
  ncclUniqueId id;
  expect("before", ncclGetVersion(&code), ncclSuccess);
  printf("version %d\n", code);
  expect("ncclGetUniqueId", ncclGetUniqueId(&id), ncclSuccess);
  expect("after", ncclGetVersion(&code), ncclSuccess);
  printf("version %d\n", code);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  size = atoi(argv[1]);
  setvbuf(stdout, NULL, _IOLBF, 0);
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (strcmp(argv[2], "processes") == 0) return processes(size);
  if (strcmp(argv[2], "threads") == 0) threads(size);
  if (strcmp(argv[2], "all") == 0) all();
  if (strcmp(argv[2], "duplicate") == 0) duplicate();
  if (strcmp(argv[2], "late") == 0) late();
  if (strcmp(argv[2], "killed") == 0) killed();
  if (strcmp(argv[2], "version") == 0) version();
  return wrong ? 1 : 0;
}
