/* The CUDA driver as the test programs use it, and buffers with values on the device. */
#ifndef DDL_TESTS_NCCL_STREAM_DEVICE_H
#define DDL_TESTS_NCCL_STREAM_DEVICE_H

#include <stdatomic.h>
#include <stdint.h>

#include "tests/nccl/client.h"

typedef uint64_t device_pointer;
typedef cudaStream_t stream_t;

/* Makes a device current to this thread. */
void use_device(int device);
stream_t new_stream(void);
/* Never freed: that waits for the whole device, and so for ranks that wait for the one that frees. */
device_pointer new_buffer(size_t bytes);
/* Both wait; on a stream of their own, so that they wait for nothing else. */
void to_device(device_pointer to, const void* from, size_t bytes);
void to_host(void* to, device_pointer from, size_t bytes);
device_pointer buffer_of(const void* values, size_t bytes);
void* pinned_buffer(size_t bytes);
void copy_to_device(device_pointer to, const void* from, size_t bytes, stream_t stream);
void copy_to_host(void* to, device_pointer from, size_t bytes, stream_t stream);
void copy_on_device(device_pointer to, device_pointer from, size_t bytes, stream_t stream);
void synchronize(stream_t stream);
int is_done(stream_t stream);
void begin_capture(stream_t stream);
/* While it lasts no thread of the process may do what CUDA calls unsafe then. */
void begin_global_capture(stream_t stream);
/* By an event. If the earlier stream is captured, the later one is from now on. */
void let_wait(stream_t later, stream_t earlier);
void end_capture(stream_t stream);
/* The end of a capture that can be replayed. */
struct graph;
struct graph* captured_graph(stream_t stream);
void replay(struct graph* graph, stream_t stream);

/* A kernel that runs until it is let go. */
struct obstacle {
  atomic_int go, passed;
};
void put_obstacle(struct obstacle* obstacle, stream_t stream);
void remove_obstacle(struct obstacle* obstacle);

#endif
