/* stream_client RANKS HOW WHAT: an NCCL program whose ranks are all on one GPU; with `apart` and
 * `hierarchy*` on one each. HOW: processes, threads, all (ncclCommInitAll), group (ncclCommInitRank in one
 * group), one_by_one or one_by_one_in_group (without blocking); with these four the ranks are threads after
 * that; one_thread: only of hierarchy_tuned, hierarchy_splits and unmade; rank:R:FILE: that rank alone, the
 * others being started likewise with the same new file. WHAT: cases, or one of those that end the
 * communicator another way. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/nccl/stream/stream.h"

enum { kMostRanks = 16 };

/* What the ranks of one machine share. */
static struct {
  ncclUniqueId ids[2];
  atomic_int ready, refused, met;
  stream_t stream; /* of a process whose ranks are threads */
} * board;

static int size;
static const char* what;
static ncclComm_t made_before[kMostRanks];

static int is(const char* word) { return strcmp(what, word) == 0; }

static ncclComm_t communicator(int which, int rank) {
  ncclComm_t comm = NULL;
  expect("ncclCommInitRank", ncclCommInitRank(&comm, size, board->ids[which], rank), ncclSuccess);
  return comm;
}

static void cases(struct here* here) {
  queries(here);
  numbers(here);
  types_and_operations(here);
  collectives(here, 300007);
  eight_bit_floats(here);
  messages(here);
  streams(here);
  groups(here);
  splits(here);
  refusals(here);
  newer_functions(here);
}

/* A second communicator beside the first; the calls on both cross each other. */
static void second(struct here* here) {
  enum { kCount = 9000, kBytes = 8 * kCount };
  double *in = values(here->rank, kCount), sum = 0;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  config.blocking = is("hierarchy"); /* the others have no plans */
  ncclResult_t result = ncclCommInitRankConfig(&comm, size, board->ids[1], here->rank, &config);
  struct here other = here_of(when_ready(result, &comm));
  device_pointer a = buffer_of(in, kBytes), b = buffer_of(in, kBytes);
  for (int turn = 0; turn < 2; ++turn) {
    struct here* one = (here->rank + turn) % 2 ? here : &other;
    CALL(ncclAllReduce, kBytes, (void*)(one == here ? a : b), (void*)(one == here ? a : b), kCount,
         ncclFloat64, one == here ? ncclSum : ncclMax, one->comm, one->stream);
  }
  synchronize(here->stream);
  synchronize(other.stream);
  for (int r = 0; r < size; ++r) sum += value(r, 5);
  to_host(in, a, kBytes);
  check(in[5] == sum, "a sum beside a maximum");
  to_host(in, b, kBytes);
  check(in[5] == value(size - 1, 5), "a maximum beside a sum");
  expect("ncclCommDestroy", ncclCommDestroy(other.comm), ncclSuccess);
  free(in);
}

static void make_ids(void) {
  expect("ncclGetUniqueId", ncclGetUniqueId(&board->ids[0]), ncclSuccess);
  expect("ncclGetUniqueId", ncclGetUniqueId(&board->ids[1]), ncclSuccess);
  atomic_store(&board->ready, 1);
}

/* A plan needs 64 KiB; see hierarchy.c. */
static void with_plans(struct here* here) {
  second(here);
  on_hierarchies(here);
}

/* With NCCL itself, as far as its test double goes: it multiplies few types, and its mistakes are its own. */
static void apart(struct here* here) {
  numbers(here);
  streams(here);
  groups(here);
  collectives(here, 300007);
  second(here);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}

static int device_of(int rank) { return is("apart") || strncmp(what, "hierarchy", 9) == 0 ? rank : 0; }

/* The program's handlers run behind those of what it has loaded later. */
static struct here last_one;
static void sum_at_exit(void) {
  if (!last_one.comm) return;
  sum_of_a_plan(&last_one);
  if (wrong) _exit(1);
}

/* Memory is freed before there are communicators: a free may wait for all that the device has to do, and so
 * for other ranks of this process, whose calls wait for this one. */
void one_rank(int rank) {
  if (is("kernels_of_one") && rank == 1) setenv("FAKE_CUDA_KERNELS", "no_binary", 1);
  use_device(device_of(rank));
  if (rank == 0 && !atomic_load(&board->ready)) make_ids();
  while (!atomic_load(&board->ready)) usleep(1000);
  if (is("late") && rank == size - 1) return;
  if (is("late")) {
    ncclComm_t none = NULL;
    expect("without the last rank", ncclCommInitRank(&none, size, board->ids[0], rank), ncclSystemError);
    printf("last: %s\n", ncclGetLastError(NULL));
    return;
  }
  if (is("cases") && !made_before[rank]) memory();
  ncclComm_t comm = made_before[rank] ? made_before[rank] : communicator(0, rank);
  if (!comm) return;
  struct here here = here_of(comm);
  if (is("mismatch")) return mismatch(&here);
  if (is("mismatch_of_a_message")) return mismatch_of_a_message(&here);
  if (is("mismatch_of_the_last_chunk")) return mismatch_of_the_last_chunk(&here);
  if (is("same_stream")) {
    if (rank == 0) board->stream = here.stream;
    atomic_fetch_add(&board->met, 1);
    while (atomic_load(&board->met) < size) usleep(1000);
    same_stream(&here, board->stream, &board->refused);
    atomic_fetch_add(&board->met, 1);
    while (atomic_load(&board->met) < 2 * size) usleep(1000);
    check(atomic_load(&board->refused) == size - 1, "who was refused on a shared stream");
    return;
  }
  if (is("dead_peer")) return dead_peer(&here);
  if (is("dead_amid")) return dead_amid(&here);
  if (is("mismatch_of_scales")) return mismatch_of_scales(&here);
  if (is("bits")) return bits(&here);
  if (is("accuracy")) return accuracy(&here);
  if (is("measure")) return measure(&here);
  if (is("overhead")) return overhead(&here);
  if (is("fused")) {
    struct here other = here_of(communicator(1, rank));
    return fused(&here, &other);
  }
  if (is("fused_allocations")) return fused_without_allocations(&here);
  if (is("fused_mismatch")) return fused_mismatch(&here);
  if (is("time_groups")) return time_groups(&here);
  if (is("aborted")) return aborted(&here, ncclSuccess);
  if (is("graphs")) return graphs(&here);
  if (is("hierarchy_aborted")) return aborted(&here, ncclInvalidUsage);
  if (is("hierarchy")) return with_plans(&here);
  if (is("hierarchy_allocations")) return without_allocations(&here);
  if (is("hierarchy_at_exit")) {
    sum_of_a_plan(&here);
    last_one = here;
    return;
  }
  if (is("hierarchy_splits")) return splits_with_plans(&here);
  if (is("hierarchy_splits_of_others")) return splits_without_the_first(&here);
  if (is("hierarchy_tuned")) return tuned(&here);
  if (is("hierarchy_tuned_numbers")) return tuned_numbers(&here);
  if (is("hierarchy_tuned_and_aborted")) return tuned_and_aborted(&here);
  if (is("hierarchy_tuned_and_dead")) return tuned_and_dead(&here);
  if (is("hierarchy_split_fails")) return on_hierarchies(&here);
  if (is("apart")) return apart(&here);
  if (is("leaves")) return; /* as programs do that end without a word */
  cases(&here);
  second(&here);
  destroyed(&here);
}

/* Without waiting for the others, which the same thread creates next. */
static void create_one_by_one(int in_group) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclResult_t results[kMostRanks];
  config.blocking = 0;
  if (in_group) expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < size; ++r) {
    use_device(device_of(r));
    results[r] = ncclCommInitRankConfig(made_before + r, size, board->ids[0], r, &config);
    check(made_before[r] != NULL, "a handle at once");
  }
  if (in_group) expect("ncclGroupEnd", ncclGroupEnd(), ncclInProgress);
  for (int r = 0; r < size; ++r) when_ready(in_group ? ncclInProgress : results[r], made_before + r);
}

static void all(const char* how) {
  int devices[kMostRanks];
  int in_group = strcmp(how, "group") == 0;
  for (int r = 0; r < size; ++r) devices[r] = device_of(r);
  use_device(0);
  if (is("cases")) memory();
  make_ids();
  if (strncmp(how, "one_by_one", 10) == 0) return create_one_by_one(strcmp(how, "one_by_one") != 0);
  if (!in_group) {
    expect("ncclCommInitAll", ncclCommInitAll(made_before, size, devices), ncclSuccess);
  } else {
    expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
    for (int r = 0; r < size; ++r) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      char* network = strdup("Socket");
      config.netName = network;
      use_device(devices[r]);
      expect("init", ncclCommInitRankConfig(made_before + r, size, board->ids[0], r, &config), ncclSuccess);
      memset(network, '?', 6); /* it was copied, or is of no use */
      free(network);
    }
    expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  }
}

/* The others never come. */
static void unmade(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  ncclResult_t state = ncclSuccess;
  int count = 0;
  config.blocking = 0;
  use_device(0);
  make_ids();
  for (int turn = 0; turn < 2; ++turn) {
    expect("init", ncclCommInitRankConfig(&comm, 2, board->ids[turn], 0, &config), ncclInProgress);
    expect("ncclCommGetAsyncError", ncclCommGetAsyncError(comm, &state), ncclSuccess);
    expect("the state", state, ncclInProgress);
    expect("ncclCommCount", ncclCommCount(comm, &count), ncclInvalidArgument);
    while (turn == 1 && state == ncclInProgress) {
      usleep(1000);
      expect("ncclCommGetAsyncError", ncclCommGetAsyncError(comm, &state), ncclSuccess);
    }
    expect("the state", state, turn == 0 ? ncclInProgress : ncclSystemError);
    if (turn == 1) printf("last: %s\n", ncclGetLastError(comm));
    expect("ncclCommAbort", ncclCommAbort(comm), ncclSuccess);
    expect("when it is gone", ncclCommGetAsyncError(comm, &state), ncclInvalidArgument);
    expect("aborted twice", ncclCommAbort(comm), ncclInvalidArgument);
  }
}

static void one_thread(void) {
  struct here here[kMostRanks];
  if (is("unmade")) return unmade();
  all("group");
  for (int r = 0; r < size; ++r) {
    use_device(device_of(r));
    here[r] = here_of(made_before[r]);
  }
  (is("hierarchy_splits") ? splits_by_one_thread : tuned_by_one_thread)(here, size);
  print_tally();
}

/* FILE: NULL where all ranks are children of this process. */
static void put_up_board(const char* file) {
  int fd = file ? open(file, O_CREAT | O_RDWR, 0600) : -1;
  if (file && (fd < 0 || ftruncate(fd, sizeof *board) != 0)) exit(2);
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | (file ? 0 : MAP_ANONYMOUS), fd, 0);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  size = atoi(argv[1]);
  what = argv[3];
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (is("hierarchy_at_exit")) atexit(sum_at_exit);
  char* file = strncmp(argv[2], "rank:", 5) == 0 ? strrchr(argv[2], ':') + 1 : NULL;
  put_up_board(file);
  if (file) return one_rank(atoi(argv[2] + 5)), wrong ? 1 : 0;
  if (is("forked")) make_ids(); /* by the parent, which is no rank */
  if (strcmp(argv[2], "processes") == 0) return processes(size);
  if (strcmp(argv[2], "one_thread") == 0) return one_thread(), wrong ? 1 : 0;
  if (strcmp(argv[2], "threads") != 0) all(argv[2]);
  if (!wrong) threads(size);
  return wrong ? 1 : 0;
}
