/* Calls, groups and streams: from a public function to a unit of work. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/fake_nccl/fake.h"

enum { kMostCalls = 4096, kMostCreations = 64 };

static __thread int depth, calls_n, creations_n;
static __thread struct call* calls; /* of this thread's group */
static __thread ncclResult_t trouble;
static __thread ncclResult_t (*create[kMostCreations])(void*);
static __thread void* created[kMostCreations];

struct unit {
  ncclComm_t comm;
  unsigned ticket;
  int n;
  struct call calls[];
};

void* fake_libcuda(const char* function) {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return library ? dlsym(library, function) : NULL;
}

static ncclResult_t run(void* what) {
  struct unit* unit = what;
  fake_begin_turn(unit->comm, unit->ticket);
  ncclResult_t result = fake_execute(unit->comm, unit->calls, unit->n);
  if (result != ncclSuccess) atomic_store(&unit->comm->state, result);
  fake_end_turn(unit->comm);
  free(unit);
  return result;
}

static void run_on_stream(void* what) { run(what); }

static void nothing(void* what) { (void)what; }

/* A call on a stream that is being captured belongs to the graph, and has no place among the calls of now. */
static int is_captured(cudaStream_t stream) {
  int status = 0;
  int (*capturing)(cudaStream_t, int*) =
      (int (*)(cudaStream_t, int*))(uintptr_t)fake_libcuda("cuStreamIsCapturing");
  int (*launch)(cudaStream_t, void (*)(void*), void*) =
      (int (*)(cudaStream_t, void (*)(void*), void*))(uintptr_t)fake_libcuda("fake_cuda_enqueue");
  if (!capturing || capturing(stream, &status) != 0 || status == 0) return 0;
  return launch(stream, nothing, NULL) == 0;
}

static struct unit* make_unit(ncclComm_t comm, const struct call* some, int n) {
  struct unit* unit = malloc(sizeof *unit + (size_t)n * sizeof *some);
  unit->comm = comm;
  unit->ticket = fake_ticket(comm);
  unit->n = 0;
  for (int i = 0; i < n; ++i)
    if (some[i].comm == comm) unit->calls[unit->n++] = some[i];
  return unit;
}

struct job {
  ncclResult_t (*work)(void*);
  void* what;
  ncclResult_t result;
};

static void* do_job(void* at) {
  struct job* job = at;
  job->result = job->work(job->what);
  return NULL;
}

static ncclResult_t each_in_a_thread(int n, struct job* jobs) {
  pthread_t* threads = calloc((size_t)n, sizeof *threads);
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < n; ++i) pthread_create(threads + i, NULL, do_job, jobs + i);
  for (int i = 0; i < n; ++i) {
    pthread_join(threads[i], NULL);
    if (jobs[i].result != ncclSuccess) result = jobs[i].result;
  }
  free(threads);
  return result;
}

ncclResult_t fake_in_threads(int n, ncclResult_t (*work)(void*), void** what) {
  struct job jobs[kMostCreations];
  for (int i = 0; i < n; ++i) jobs[i] = (struct job){work, what[i], ncclSuccess};
  return each_in_a_thread(n, jobs);
}

ncclResult_t fake_start(ncclResult_t (*work)(void*), void* what) {
  if (depth == 0) return work(what);
  if (creations_n == kMostCreations)
    return fake_fail(NULL, ncclInvalidUsage, "too many creations in a group");
  create[creations_n] = work;
  created[creations_n++] = what;
  return ncclSuccess;
}

static ncclResult_t start_unit(struct unit* unit, cudaStream_t stream) {
  int (*launch)(cudaStream_t, void (*)(void*), void*) =
      (int (*)(cudaStream_t, void (*)(void*), void*))(uintptr_t)fake_libcuda("fake_cuda_enqueue");
  if (!launch) return run(unit);
  if (launch(stream, run_on_stream, unit) == 0) return ncclSuccess;
  fake_begin_turn(unit->comm, unit->ticket); /* nobody may wait for what will not run */
  fake_end_turn(unit->comm);
  free(unit);
  return ncclUnhandledCudaError;
}

static ncclResult_t check(const struct call* call) {
  ncclComm_t comm = call->comm;
  if (!fake_valid(comm))
    return fake_fail(NULL, ncclInvalidArgument, "this is no communicator of this library");
  if (atomic_load(&comm->state) != ncclSuccess)
    return fake_fail(comm, ncclInvalidUsage, "the communicator is not ready");
  if (!fake_type_bytes(call->type))
    return fake_fail(comm, ncclInvalidArgument, "a type this test double does not know");
  int own = (int)call->op - kFirstOwnOp;
  if (own >= kOwnOps || (own >= 0 && !comm->scale_used[own]))
    return fake_fail(comm, ncclInvalidArgument, "unknown operation");
  if (call->peer < 0 || call->peer >= comm->size)
    return fake_fail(comm, ncclInvalidArgument, "no such peer or root");
  return ncclSuccess;
}

/* Device memory as the host functions of this double reach it; everything else as it is. */
static void* reachable(const void* pointer) {
  void* (*inside)(unsigned long long) =
      (void* (*)(unsigned long long))(uintptr_t)fake_libcuda("fake_cuda_inside");
  void* found = inside ? inside((unsigned long long)(uintptr_t)pointer) : NULL;
  return found ? found : (void*)(uintptr_t)pointer;
}

static ncclResult_t submit(struct call call) {
  ncclResult_t result = check(&call);
  call.in = reachable(call.in);
  call.out = reachable(call.out);
  if (result != ncclSuccess) {
    if (depth > 0) trouble = result;
    return result;
  }
  int own = (int)call.op - kFirstOwnOp;
  call.scale = own >= 0 ? call.comm->scale[own] : 1;
  fake_trace_call(&call);
  if (depth == 0 && is_captured(call.stream)) return ncclSuccess;
  if (depth == 0) return start_unit(make_unit(call.comm, &call, 1), call.stream);
  if (!calls) calls = malloc(kMostCalls * sizeof *calls);
  if (calls_n == kMostCalls) return fake_fail(call.comm, ncclInvalidUsage, "too many calls in a group");
  calls[calls_n++] = call;
  return ncclSuccess;
}

/* One unit per communicator; without streams each in a thread, as they wait for each other. */
static ncclResult_t run_calls(void) {
  struct job jobs[kMostCreations];
  int n = 0;
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < calls_n; ++i) {
    int seen = 0;
    for (int j = 0; j < i; ++j) seen |= calls[j].comm == calls[i].comm;
    if (seen) continue;
    struct unit* unit = make_unit(calls[i].comm, calls, calls_n);
    if (fake_libcuda("fake_cuda_enqueue"))
      result = start_unit(unit, calls[i].stream);
    else
      jobs[n++] = (struct job){run, unit, ncclSuccess};
  }
  ncclResult_t of_jobs = n ? each_in_a_thread(n, jobs) : ncclSuccess;
  return result == ncclSuccess ? of_jobs : result;
}

static ncclResult_t create_all(void) {
  struct job jobs[kMostCreations];
  for (int i = 0; i < creations_n; ++i) jobs[i] = (struct job){create[i], created[i], ncclSuccess};
  return each_in_a_thread(creations_n, jobs);
}

static void clear(void) {
  free(calls);
  calls = NULL;
  calls_n = creations_n = 0;
  trouble = ncclSuccess;
}

FAKE_API ncclResult_t ncclGroupStart(void) { return ++depth, ncclSuccess; }

FAKE_API ncclResult_t ncclGroupEnd(void) {
  if (depth == 0) return fake_fail(NULL, ncclInvalidUsage, "ncclGroupEnd: not in a group call");
  if (--depth > 0) return ncclSuccess;
  ncclResult_t result = trouble;
  if (result == ncclSuccess && creations_n) result = create_all();
  if (result == ncclSuccess) result = run_calls();
  clear();
  return result;
}

FAKE_API ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  if (depth == 0) return fake_fail(NULL, ncclInvalidUsage, "ncclGroupSimulateEnd: not in a group call");
  if (--depth > 0) return ncclSuccess;
  if (info) info->estimatedTime = (float)calls_n;
  clear();
  return ncclSuccess;
}

FAKE_API ncclResult_t ncclGetVersion(int* version) {
  const char* given = getenv("FAKE_NCCL_VERSION");
  if (!version) return ncclInvalidArgument;
  *version = given ? atoi(given) : 22809;
  return ncclSuccess;
}

FAKE_API const char* ncclGetErrorString(ncclResult_t result) {
  static const char* const texts[] = {"no error",       "unhandled cuda error", "system error",
                                      "internal error", "invalid argument",     "invalid usage",
                                      "remote error",   "in progress"};
  return result <= ncclInProgress ? texts[result] : "unknown result code";
}

FAKE_API ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  return (*address = malloc(bytes)) ? ncclSuccess : ncclSystemError;
}

FAKE_API ncclResult_t ncclMemFree(void* address) { return free(address), ncclSuccess; }

FAKE_API ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  (void)bytes;
  *handle = buffer;
  return fake_valid(comm) ? ncclSuccess : ncclInvalidArgument;
}

FAKE_API ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  (void)handle;
  return fake_valid(comm) ? ncclSuccess : ncclInvalidArgument;
}

FAKE_API ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit((struct call){ALL_REDUCE, in, out, count, type, op, 1, 0, comm, stream});
}

FAKE_API ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                 int root, ncclComm_t comm, cudaStream_t stream) {
  return submit((struct call){REDUCE, in, out, count, type, op, 1, root, comm, stream});
}

FAKE_API ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                                    ncclComm_t comm, cudaStream_t stream) {
  return submit((struct call){BROADCAST, in, out, count, type, ncclSum, 1, root, comm, stream});
}

FAKE_API ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

FAKE_API ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                                    ncclComm_t comm, cudaStream_t stream) {
  return submit((struct call){ALL_GATHER, in, out, count, type, ncclSum, 1, 0, comm, stream});
}

FAKE_API ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit((struct call){REDUCE_SCATTER, in, out, count, type, op, 1, 0, comm, stream});
}

FAKE_API ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type,
                                   ncclComm_t comm, cudaStream_t stream) {
  return submit((struct call){ALL_TO_ALL, in, out, count, type, ncclSum, 1, 0, comm, stream});
}

FAKE_API ncclResult_t ncclGather(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream) {
  return submit((struct call){GATHER, in, out, count, type, ncclSum, 1, root, comm, stream});
}

/* To oneself it is a broadcast: a jump to a public function, which comes with the program's return address.
 */
FAKE_API ncclResult_t ncclScatter(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  if (fake_valid(comm) && comm->size == 1) return ncclBroadcast(in, out, count, type, root, comm, stream);
  return submit((struct call){SCATTER, in, out, count, type, ncclSum, 1, root, comm, stream});
}

FAKE_API ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream) {
  return submit((struct call){SEND, in, NULL, count, type, ncclSum, 1, peer, comm, stream});
}

FAKE_API ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream) {
  return submit((struct call){RECV, NULL, out, count, type, ncclSum, 1, peer, comm, stream});
}
