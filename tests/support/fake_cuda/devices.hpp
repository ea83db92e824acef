// Devices, contexts and the failures a test asks for. A context is current to a thread. Thread safety: all.
#pragma once

#include "core/device/cuda_driver.hpp"

namespace fake_cuda {

using ddl::cuda::Context;
using ddl::cuda::Device;
using ddl::cuda::Result;
using ddl::cuda::Stream;
using ddl::cuda::Uuid;

Result initialise();
/// kSuccess, or what every call answers before cuInit.
Result initialised();
int device_count();
bool device_exists(Device device);
Uuid uuid_of(Device device);

Context primary_context(Device device);
void forget_modules(Context context);  // of modules loaded there, and their functions
bool is_context(Context context);
Device device_of(Context context);

/// The calling thread's stack of contexts; its top is the current one, null at first.
Context current();
void set_current(Context context);
void push(Context context);
bool pop(Context& context);

/// What a stream argument means: the legacy default stream of the current context for 0 and 1, this thread's
/// for 2, else itself.
Result stream_meant(Stream given, Stream& meant);

/// Counts a call and tells what it has to answer: kSuccess, or the failure asked for.
Result on_call(const char* function);
/// One after the other, whatever their streams, in the order in which they come to them: what waits in one
/// for a later one hangs. In them CUDA is refused.
void run_host_function(void (*function)(void*), void* data);
inline constexpr Result kNotPermitted = 800;

}  // namespace fake_cuda
