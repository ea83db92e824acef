/* Collectives in a graph that is launched again and again, between calls outside it. */
#include <stdlib.h>

#include "tests/nccl/stream/stream.h"

enum { kCount = 2500003 }; /* several pieces of a captured call */

static void expect_all(device_pointer at, size_t count, float right, const char* what) {
  float* numbers = malloc(count * sizeof *numbers);
  to_host(numbers, at, count * sizeof *numbers);
  for (size_t i = 0; i < count; ++i) check(numbers[i] == right, what);
  free(numbers);
}

static device_pointer floats(size_t count, float value) {
  float* numbers = malloc(count * sizeof *numbers);
  for (size_t i = 0; i < count; ++i) numbers[i] = value;
  device_pointer made = buffer_of(numbers, count * sizeof *numbers);
  free(numbers);
  return made;
}

/* Every launch sums a, gathers all ranks' first elements of it, finds the largest of c, spreads shares and
 * passes one number around a ring. */
void graphs(struct here* here) {
  enum { kLaunches = 4, kShare = 1500001 };
  int size = here->size, next = (here->rank + 1) % size, before = (here->rank + size - 1) % size;
  device_pointer a = floats(kCount, 1), b = floats(kCount, 2), all = floats((size_t)size, 0);
  device_pointer mine = floats(1, (float)here->rank), from = floats(1, -1), share = floats(kShare, 0);
  device_pointer c = floats(kCount, (float)here->rank), spread = floats((size_t)size * kShare, 5);
  device_pointer busy = floats(kCount, 1);
  stream_t aside[2] = {new_stream(), new_stream()}, beside = new_stream();
  /* Under way while others are captured, with what the engine's threads do for it. */
  CALL(ncclAllReduce, 4 * kCount, (void*)busy, (void*)busy, kCount, ncclFloat32, ncclSum, here->comm, beside);
  begin_global_capture(here->stream);
  CALL(ncclAllReduce, 4 * kCount, (void*)a, (void*)a, kCount, ncclFloat32, ncclSum, here->comm, here->stream);
  CALL(ncclAllGather, 4 * (size_t)size, (void*)a, (void*)all, 1, ncclFloat32, here->comm, here->stream);
  /* On streams that join the capture, as frameworks have theirs for NCCL, and that do not know each other. */
  for (int i = 0; i < 2; ++i) let_wait(aside[i], here->stream);
  CALL(ncclReduce, 4 * kCount, (void*)c, (void*)c, kCount, ncclFloat32, ncclMax, size - 1, here->comm,
       aside[0]);
  CALL(ncclScatter, 4 * (size_t)size * kShare, (void*)spread, (void*)share, kShare, ncclFloat32, 0,
       here->comm, aside[1]);
  for (int i = 0; i < 2; ++i) let_wait(here->stream, aside[i]);
  expect("ncclGroupStart", ncclGroupStart(), ncclSuccess);
  CALL(ncclSend, 4, (void*)mine, 1, ncclFloat32, next, here->comm, here->stream);
  CALL(ncclRecv, 4, (void*)from, 1, ncclFloat32, before, here->comm, here->stream);
  expect("ncclGroupEnd", ncclGroupEnd(), ncclSuccess);
  struct graph* graph = captured_graph(here->stream);
  expect_all(a, kCount, 1, "a captured call did something");
  synchronize(beside);
  expect_all(busy, kCount, (float)size, "a sum beside a capture");
  float right = 1, between = 2;
  for (int i = 0; i < kLaunches; ++i) {
    replay(graph, here->stream);
    right *= (float)size;
    if (i % 2) { /* behind the graph that has just been launched, on the same stream */
      CALL(ncclAllReduce, 4 * kCount, (void*)b, (void*)b, kCount, ncclFloat32, ncclAvg, here->comm,
           here->stream);
      continue;
    }
    synchronize(here->stream);
    expect_all(a, kCount, right, "a sum in a graph");
  }
  synchronize(here->stream);
  expect_all(a, kCount, right, "the last sum in a graph");
  expect_all(b, kCount, between, "an average beside graphs");
  expect_all(all, (size_t)size, right, "what a graph gathered");
  expect_all(c, kCount, (float)(here->rank == size - 1 ? size - 1 : here->rank), "a maximum in a graph");
  expect_all(share, kShare, 5, "what a graph scattered");
  expect_all(from, 1, (float)before, "what a graph passed on");
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
  replay(graph, here->stream); /* it does nothing, and hangs nobody */
  synchronize(here->stream);
}
