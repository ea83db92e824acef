#include "tests/support/fake_cuda/kernels.hpp"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>

// What nvcc knows by itself.
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(threads)
namespace {
struct Index3 {
  unsigned x = 0;
};
void __syncthreads() {}
void __threadfence() {}
void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }
unsigned atomicAdd(unsigned* at, unsigned more) { return std::atomic_ref(*at).fetch_add(more); }
float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
thread_local Index3 blockIdx, threadIdx, blockDim, gridDim;
// Flags: by the last of all threads, since none waits for others here.
void raise_flag(unsigned* at, unsigned value) {
  if (blockIdx.x + 1 != gridDim.x || threadIdx.x + 1 != blockDim.x) std::abort();
  std::atomic_ref(*at).store(value, std::memory_order_release);
}
}  // namespace

#include "core/device/kernels/reduce.cu"

namespace fake_cuda {
namespace {

using Twins = std::map<std::string_view, Twin>;

#define TWIN(operation, type, bytes) \
  {"ddl_reduce_" #operation "_" #type, {bytes, ddl_reduce_##operation##_##type}},
#define TWINS(type, bytes) \
  TWIN(sum, type, bytes)   \
  TWIN(prod, type, bytes) TWIN(min, type, bytes) TWIN(max, type, bytes) TWIN(average, type, bytes)

const Twins& twins() {
  static const Twins* all = new Twins{TWINS(int8, 1) TWINS(uint8, 1) TWINS(int32, 4) TWINS(uint32, 4) TWINS(
      int64, 8) TWINS(uint64, 8) TWINS(float16, 2) TWINS(bfloat16, 2) TWINS(float32, 4) TWINS(float64, 8)};
  return *all;
}

}  // namespace

const Twin* twin_of(std::string_view kernel) {
  auto found = twins().find(kernel);
  return found == twins().end() ? nullptr : &found->second;
}

void run(const Twin& twin, unsigned blocks, unsigned threads,
         const ddl::kernels::ReduceArguments& arguments) {
  gridDim.x = blocks;
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) twin.kernel(arguments);
}

}  // namespace fake_cuda
