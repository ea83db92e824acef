#include "tests/nccl/stream/device.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuMemHostAlloc(void** at, size_t bytes, unsigned flags);
int cuMemAlloc_v2(device_pointer* address, size_t bytes);
int cuStreamCreate(stream_t* stream, unsigned flags);
int cuStreamSynchronize(stream_t stream);
int cuStreamQuery(stream_t stream);
int cuStreamWaitEvent(stream_t stream, void* event, unsigned flags);
int cuEventCreate(void** event, unsigned flags);
int cuEventRecord(void* event, stream_t stream);
int cuEventDestroy_v2(void* event);
int cuStreamBeginCapture_v2(stream_t stream, int mode);
int cuStreamEndCapture(stream_t stream, void** graph);
int cuGraphDestroy(void* graph);
int cuGraphInstantiateWithFlags(struct graph** executable, void* graph, unsigned long long flags);
int cuGraphLaunch(struct graph* executable, stream_t stream);
int cuLaunchHostFunc(stream_t stream, void (*function)(void*), void* data);
/* A kernel; of the test double alone. */
int fake_cuda_enqueue(stream_t stream, void (*function)(void*), void* data) __attribute__((weak));
int cuMemcpyHtoDAsync_v2(device_pointer to, const void* from, size_t bytes, stream_t stream);
int cuMemcpyDtoHAsync_v2(void* to, device_pointer from, size_t bytes, stream_t stream);
int cuMemcpyDtoDAsync_v2(device_pointer to, device_pointer from, size_t bytes, stream_t stream);

enum { kNonBlocking = 1, kWithoutTime = 2, kGlobal = 0, kThreadLocal = 1 };

static void must(int result, const char* what) {
  if (result == 0) return;
  fprintf(stderr, "client: CUDA: %s: %d\n", what, result);
  exit(3);
}

enum { kMostDevices = 16 };
static _Thread_local int current;
static _Thread_local stream_t asides[kMostDevices];

void use_device(int device) {
  void* context;
  current = device;
  must(cuInit(0), "init");
  must(cuDevicePrimaryCtxRetain(&context, device), "context");
  must(cuCtxSetCurrent(context), "current");
}

stream_t new_stream(void) {
  stream_t stream;
  must(cuStreamCreate(&stream, kNonBlocking), "stream");
  return stream;
}

device_pointer new_buffer(size_t bytes) {
  device_pointer made;
  must(cuMemAlloc_v2(&made, bytes ? bytes : 1), "memory");
  return made;
}

/* One for a thread and device, because a process has few connections to a GPU. */
static stream_t aside(void) {
  if (!asides[current]) asides[current] = new_stream();
  return asides[current];
}

void to_device(device_pointer to, const void* from, size_t bytes) {
  copy_to_device(to, from, bytes, aside());
  synchronize(aside());
}

void to_host(void* to, device_pointer from, size_t bytes) {
  copy_to_host(to, from, bytes, aside());
  synchronize(aside());
}

void* pinned_buffer(size_t bytes) {
  void* made;
  must(cuMemHostAlloc(&made, bytes, 0), "pinned memory");
  return made;
}

void copy_to_device(device_pointer to, const void* from, size_t bytes, stream_t stream) {
  must(cuMemcpyHtoDAsync_v2(to, from, bytes, stream), "copy");
}

void copy_to_host(void* to, device_pointer from, size_t bytes, stream_t stream) {
  must(cuMemcpyDtoHAsync_v2(to, from, bytes, stream), "copy");
}

device_pointer buffer_of(const void* values, size_t bytes) {
  device_pointer made = new_buffer(bytes);
  to_device(made, values, bytes);
  return made;
}

void copy_on_device(device_pointer to, device_pointer from, size_t bytes, stream_t stream) {
  must(cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "copy");
}

void synchronize(stream_t stream) { must(cuStreamSynchronize(stream), "synchronize"); }
int is_done(stream_t stream) { return cuStreamQuery(stream) == 0; }
void begin_capture(stream_t stream) { must(cuStreamBeginCapture_v2(stream, kThreadLocal), "capture"); }

void begin_global_capture(stream_t stream) { must(cuStreamBeginCapture_v2(stream, kGlobal), "capture"); }

void let_wait(stream_t later, stream_t earlier) {
  void* event;
  must(cuEventCreate(&event, kWithoutTime), "event");
  must(cuEventRecord(event, earlier), "event");
  must(cuStreamWaitEvent(later, event, 0), "event");
  must(cuEventDestroy_v2(event), "event");
}

void end_capture(stream_t stream) {
  void* graph;
  must(cuStreamEndCapture(stream, &graph), "end of capture");
  cuGraphDestroy(graph);
}

struct graph* captured_graph(stream_t stream) {
  void* graph;
  struct graph* executable;
  must(cuStreamEndCapture(stream, &graph), "end of capture");
  must(cuGraphInstantiateWithFlags(&executable, graph, 0), "graph");
  cuGraphDestroy(graph);
  return executable;
}

void replay(struct graph* graph, stream_t stream) { must(cuGraphLaunch(graph, stream), "replay"); }

static void wait_until_let_go(void* at) {
  struct obstacle* obstacle = at;
  while (!atomic_load(&obstacle->go)) sched_yield();
  atomic_store(&obstacle->passed, 1);
}

void put_obstacle(struct obstacle* obstacle, stream_t stream) {
  atomic_store(&obstacle->go, 0);
  atomic_store(&obstacle->passed, 0);
  /* CUDA runs host functions one after the other, and in that case the engine needs them itself. */
  int as_kernel = fake_cuda_enqueue && getenv("FAKE_CUDA_NO_STREAM_MEMORY_OPERATIONS");
  must((as_kernel ? fake_cuda_enqueue : cuLaunchHostFunc)(stream, wait_until_let_go, obstacle), "obstacle");
}

void remove_obstacle(struct obstacle* obstacle) {
  atomic_store(&obstacle->go, 1);
  while (!atomic_load(&obstacle->passed)) sched_yield();
}
