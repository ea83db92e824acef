// The exported functions as core/device/cuda_driver.def declares them: a definition that differs does not
// compile, and one that is missing is found by a test.
#pragma once

#include "core/device/cuda_driver.hpp"

using namespace ddl::cuda;  // the table speaks its types

#pragma GCC visibility push(default)
extern "C" {
#define DDL_CUDA(need, member, name, suffix, parameters) Result name##suffix parameters;
#include "core/device/cuda_driver.def"
#undef DDL_CUDA
// What programs do, and the engine does not.
Result cuMemAllocAsync(DevicePointer* pointer, std::size_t bytes, Stream stream);
Result cuDevicePrimaryCtxReset_v2(Device device);
Result cuGraphInstantiateWithFlags(Graph* executable, Graph graph, unsigned long long flags);
Result cuGraphLaunch(Graph executable, Stream stream);
Result cuGraphExecDestroy(Graph executable);
int fake_cuda_fail(const char* function, int calls_from_now, int result);
unsigned long fake_cuda_calls(const char* function);
void* fake_cuda_inside(DevicePointer pointer);
int fake_cuda_enqueue(Stream stream, void (*function)(void*), void* data);
}
#pragma GCC visibility pop

#define RETURN_IF_FAILED(call) \
  if (ddl::cuda::Result result_ = (call)) return result_
