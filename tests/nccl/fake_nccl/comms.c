/* The life of communicators. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "tests/nccl/fake_nccl/fake.h"

enum { kMagic = 0xfa4e9cc1 };

int fake_valid(ncclComm_t comm) { return comm && comm->magic == kMagic; }

static ncclResult_t not_a_comm(void) {
  return fake_fail(NULL, ncclInvalidArgument, "this is no communicator of this library");
}

unsigned fake_ticket(ncclComm_t comm) {
  pthread_mutex_lock(&comm->mutex);
  unsigned ticket = comm->next_ticket++;
  pthread_mutex_unlock(&comm->mutex);
  return ticket;
}

void fake_begin_turn(ncclComm_t comm, unsigned ticket) {
  pthread_mutex_lock(&comm->mutex);
  while (comm->turn != ticket) pthread_cond_wait(&comm->moved, &comm->mutex);
  pthread_mutex_unlock(&comm->mutex);
}

void fake_end_turn(ncclComm_t comm) {
  pthread_mutex_lock(&comm->mutex);
  ++comm->turn;
  pthread_cond_broadcast(&comm->moved);
  pthread_mutex_unlock(&comm->mutex);
}

static int current_device(int rank) {
  const char* given = getenv("FAKE_NCCL_DEVICE");
  int device = rank;
  if (given) return atoi(given);
  int (*get_device)(int*) = (int (*)(int*))(uintptr_t)fake_libcuda("cuCtxGetDevice");
  if (get_device && get_device(&device) == 0) return device;
  return rank;
}

/* The real one looks at these two as well. */
/* It knows one network, by its name. */
static int is_config(const ncclConfig_t* config) {
  if (!config) return 1;
  if (config->magic != 0xcafebeef || config->size < offsetof(ncclConfig_t, cgaClusterSize)) return 0;
  return config->size < sizeof *config || !config->netName || strcmp(config->netName, "Socket") == 0;
}

static ncclComm_t make_comm(int rank, int size, int device, const char* name, const ncclConfig_t* config) {
  ncclComm_t comm = calloc(1, sizeof *comm);
  comm->magic = kMagic;
  comm->rank = rank;
  comm->size = size;
  comm->device = device;
  comm->blocking = !config || config->blocking != 0;
  atomic_store(&comm->state, ncclInProgress);
  snprintf(comm->name, sizeof comm->name, "%.63s", name);
  pthread_mutex_init(&comm->mutex, NULL);
  pthread_cond_init(&comm->moved, NULL);
  return comm;
}

static void free_comm(ncclComm_t comm) {
  fake_area_close(comm->area);
  comm->magic = 0;
  free(comm);
}

/* libnccl begins with transfers of its own; here one by the public name. */
static ncclResult_t warm_up(ncclComm_t comm) {
  char scratch = (char)comm->rank;
  if (fake_libcuda("fake_cuda_enqueue")) return ncclSuccess;
  return ncclBroadcast(&scratch, &scratch, 1, ncclInt8, 0, comm, NULL);
}

static ncclResult_t join(ncclComm_t comm) {
  struct endpoint mine = {comm->device, 0, 0, comm->rank}, all[kMostRanks];
  comm->area = fake_area(comm->name);
  if (!comm->area) return fake_fail(comm, ncclSystemError, "no shared memory %s", comm->name);
  ncclResult_t result = fake_exchange(comm, &mine, all);
  if (comm->rank == 0) shm_unlink(comm->name);
  if (result != ncclSuccess) return result;
  for (int a = 0; a < comm->size; ++a)
    for (int b = 0; b < a; ++b)
      if (all[a].device == all[b].device)
        return fake_fail(comm, ncclInvalidUsage,
                         "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", a, b,
                         all[a].device);
  atomic_store(&comm->state, ncclSuccess);
  return warm_up(comm);
}

struct creation {
  ncclComm_t comm, *at; /* the new one, and where the program wants it */
  ncclComm_t parent;    /* of a split */
  unsigned ticket;      /* on the parent */
  int fails;            /* this rank's, when all else is done */
  struct endpoint mine;
};

static ncclResult_t finish(struct creation* creation, ncclResult_t result) {
  ncclComm_t comm = creation->comm;
  if (result != ncclSuccess && comm && comm->blocking) {
    free_comm(comm);
    *creation->at = NULL;
  } else if (result != ncclSuccess && comm) {
    atomic_store(&comm->state, result);
  }
  free(creation);
  return result;
}

static ncclResult_t create(void* what) {
  struct creation* creation = what;
  return finish(creation, join(creation->comm));
}

static void* create_in_background(void* what) { return create(what), NULL; }

static ncclResult_t start_creation(struct creation* creation) {
  pthread_t thread;
  *creation->at = creation->comm;
  if (creation->comm->blocking) return fake_start(create, creation);
  pthread_create(&thread, NULL, create_in_background, creation);
  pthread_detach(thread);
  return ncclInProgress;
}

FAKE_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  unsigned long random;
  if (!id || getrandom(&random, sizeof random, 0) != sizeof random) return ncclInvalidArgument;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/fake-nccl-%016lx", random);
  return ncclSuccess;
}

static ncclResult_t init_rank(ncclComm_t* at, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (!at || ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks ||
      strncmp(id.internal, "/fake-nccl-", 11) != 0)
    return fake_fail(NULL, ncclInvalidArgument, "invalid rank, size or unique id");
  struct creation* creation = calloc(1, sizeof *creation);
  creation->at = at;
  creation->comm = make_comm(rank, ranks, current_device(rank), id.internal, config);
  return start_creation(creation);
}

FAKE_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* at, int ranks, ncclUniqueId id, int rank,
                                             ncclConfig_t* config) {
  return init_rank(at, ranks, id, rank, config);
}

FAKE_API ncclResult_t ncclCommInitRank(ncclComm_t* at, int ranks, ncclUniqueId id, int rank) {
  return init_rank(at, ranks, id, rank, NULL);
}

FAKE_API ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices_n, const int* devices) {
  ncclUniqueId id;
  void* creations[kMostRanks];
  if (!comms || devices_n < 1 || devices_n > kMostRanks) return ncclInvalidArgument;
  ncclGetUniqueId(&id);
  for (int i = 0; i < devices_n; ++i) {
    struct creation* creation = creations[i] = calloc(1, sizeof *creation);
    creation->at = comms + i;
    creation->comm = comms[i] = make_comm(i, devices_n, devices ? devices[i] : i, id.internal, NULL);
  }
  return fake_in_threads(devices_n, create, creations);
}

/* The members of one color meet in a new area, in the order of their keys. */
static ncclResult_t split(void* what) {
  struct creation* creation = what;
  struct endpoint all[kMostRanks], *mine = &creation->mine;
  ncclComm_t parent = creation->parent, comm = creation->comm;
  fake_begin_turn(parent, creation->ticket);
  ncclResult_t result = fake_exchange(parent, mine, all);
  int number = parent->splits++;
  fake_end_turn(parent);
  if (!comm) return finish(creation, result);
  comm->rank = comm->size = 0;
  for (int r = 0; r < parent->size; ++r) {
    if (all[r].color != mine->color) continue;
    ++comm->size;
    comm->rank += all[r].key < mine->key || (all[r].key == mine->key && all[r].rank < mine->rank);
  }
  snprintf(comm->name, sizeof comm->name, "%.50s.%d.%d", parent->name, number, mine->color);
  if (result == ncclSuccess) result = join(comm);
  if (creation->fails && number < 2)
    result = fake_fail(parent, ncclSystemError, "this rank's splits shall fail");
  return finish(creation, result);
}

FAKE_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* at,
                                    ncclConfig_t* config) {
  const char* fails = getenv("FAKE_NCCL_SPLIT_FAILS");
  if (!fake_valid(comm) || !at) return not_a_comm();
  if (!is_config(config)) return fake_fail(comm, ncclInvalidArgument, "this is no configuration");
  struct creation* creation = calloc(1, sizeof *creation);
  creation->fails = fails && atoi(fails) == comm->rank;
  if (color != NCCL_SPLIT_NOCOLOR) fake_trace_split(comm, config);
  if (color != NCCL_SPLIT_NOCOLOR) creation->comm = make_comm(0, 1, comm->device, "", config);
  *at = creation->comm;
  creation->at = at;
  creation->parent = comm;
  creation->ticket = fake_ticket(comm);
  creation->mine = (struct endpoint){comm->device, color, key, comm->rank};
  return fake_start(split, creation);
}

/* The real one needs the remaining ranks only; this one is called by those too, so it asks nobody. */
FAKE_API ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_n, ncclComm_t* at,
                                     ncclConfig_t* config, int flags) {
  (void)flags;
  if (!fake_valid(comm) || !at) return not_a_comm();
  int rank = comm->rank;
  char name[kNameBytes];
  for (int i = 0; i < excluded_n; ++i) {
    if (excluded[i] == comm->rank)
      return fake_fail(comm, ncclInvalidArgument, "an excluded rank cannot call this");
    rank -= excluded[i] < comm->rank;
  }
  snprintf(name, sizeof name, "%.50s.%d.s", comm->name, comm->splits++);
  struct creation* creation = calloc(1, sizeof *creation);
  creation->at = at;
  creation->comm = make_comm(rank, comm->size - excluded_n, comm->device, name, config);
  return start_creation(creation);
}

FAKE_API ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return !comm || fake_valid(comm) ? ncclSuccess : not_a_comm();
}

static ncclResult_t destroy(void* what) {
  ncclComm_t comm = what;
  fake_begin_turn(comm, fake_ticket(comm)); /* after all its work */
  free_comm(comm);
  return ncclSuccess;
}

FAKE_API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  return fake_valid(comm) ? destroy(comm) : not_a_comm();
}

/* In a group all are told first, and only then waited for. */

FAKE_API ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  if (!fake_valid(comm)) return not_a_comm();
  if (comm->area) atomic_store(&comm->area->aborted, 1);
  return fake_start(destroy, comm);
}

FAKE_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!fake_valid(comm) || !error) return not_a_comm();
  *error = (ncclResult_t)atomic_load(&comm->state);
  return ncclSuccess;
}

static ncclResult_t tell(ncclComm_t comm, int value, int* at) {
  if (!fake_valid(comm) || !at) return not_a_comm();
  if (atomic_load(&comm->state) == ncclInProgress) return ncclInProgress;
  *at = value;
  return ncclSuccess;
}

FAKE_API ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  return tell(comm, comm ? comm->size : 0, count);
}
FAKE_API ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return tell(comm, comm ? comm->rank : 0, rank);
}
FAKE_API ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  return tell(comm, comm ? comm->device : 0, device);
}

FAKE_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                               ncclScalarResidence_t residence, ncclComm_t comm) {
  (void)residence; /* all memory is host memory here */
  if (!fake_valid(comm) || (type != ncclFloat32 && type != ncclFloat64)) return not_a_comm();
  for (int i = 0; i < kOwnOps; ++i) {
    if (comm->scale_used[i]) continue;
    comm->scale_used[i] = 1;
    comm->scale[i] = type == ncclFloat32 ? (double)*(float*)scalar : *(double*)scalar;
    *op = (ncclRedOp_t)(kFirstOwnOp + i);
    return ncclSuccess;
  }
  return fake_fail(comm, ncclInternalError, "too many operations for this test double");
}

FAKE_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  int i = (int)op - kFirstOwnOp;
  if (!fake_valid(comm) || i < 0 || i >= kOwnOps || !comm->scale_used[i]) return not_a_comm();
  comm->scale_used[i] = 0;
  return ncclSuccess;
}
