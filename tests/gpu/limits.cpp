// gpu_limits WHAT: what a GPU can do, to hold collectives against. Prints lines "limits: ...".
//   kernels     each reduction of k buffers into one and into k, against a copy on the device: GB/s of bytes
//   read and written hand_overs  two processes that wait for each other's streams: microseconds from one to
//   the other and back
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/clock.hpp"
#include "core/device/cuda_driver.hpp"
#include "core/device/flag.hpp"
#include "core/device/reduce_kernels.hpp"

namespace ddl {
namespace {

struct Gpu {
  const cuda::Driver& driver;
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
};

void must(cuda::Result result, const char* what) {
  if (result == cuda::kSuccess) return;
  fmt::print(stderr, "gpu_limits: {}: {}\n", what, result);
  std::exit(3);
}

Gpu start() {
  const cuda::Found* found = cuda::process_driver(cuda::Load::kOnDemand);
  if (!found || !found->usable()) std::exit(77);
  Gpu gpu{found->driver};
  must(gpu.driver.init(0), "init");
  must(gpu.driver.primary_retain(&gpu.context, 0), "context");
  must(gpu.driver.context_set(gpu.context), "context");
  must(gpu.driver.stream_create(&gpu.stream, cuda::kStreamNonBlocking), "stream");
  return gpu;
}

cuda::DevicePointer memory(const Gpu& gpu, Bytes bytes) {
  cuda::DevicePointer made = 0;
  must(gpu.driver.allocate(&made, bytes), "memory");
  must(gpu.driver.set_values(made, 0x3f803f80, bytes / 4, gpu.stream), "values");
  return made;
}

// Seconds of one, the median of several turns.
template <class Enqueue>
double time_of(const Gpu& gpu, Enqueue enqueue) {
  constexpr int kTurns = 5, kTimes = 10;
  std::vector<double> took;
  for (int turn = 0; turn < kTurns + 1; ++turn) {
    const Nanoseconds began = now();
    for (int i = 0; i < kTimes; ++i) must(enqueue(), "enqueue");
    must(gpu.driver.stream_synchronize(gpu.stream), "synchronize");
    if (turn > 0) took.push_back(1e-9 * static_cast<double>(now() - began) / kTimes);
  }
  std::nth_element(took.begin(), took.begin() + kTurns / 2, took.end());
  return took[kTurns / 2];
}

void measure_kernels() {
  constexpr Bytes kBytes = Bytes{256} << 20;
  Gpu gpu = start();
  const ReduceKernels::Loaded& loaded = ReduceKernels::of(gpu.driver, gpu.context);
  if (!loaded.kernels) {
    fmt::print("limits: {}\n", loaded.why);
    std::exit(1);
  }
  std::vector<cuda::DevicePointer> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back(memory(gpu, kBytes));
  auto copy = [&] { return gpu.driver.copy_on_device_async(buffers[1], buffers[0], kBytes, gpu.stream); };
  const double best = 2e-9 * kBytes / time_of(gpu, copy);
  fmt::print("limits: a copy of 256 MiB on the device: {:.0f} GB/s\n", best);
  for (DType type : {DType::float32, DType::float16, DType::bfloat16, DType::float64, DType::int32,
                     DType::int64, DType::int8})
    for (DeviceOp op : {DeviceOp::sum, DeviceOp::average})
      for (std::size_t ins : {2, 3, 4})
        for (std::size_t outs : {std::size_t{1}, ins}) {
          std::span<const cuda::DevicePointer> all(buffers), from = all.first(ins);
          std::span<const cuda::DevicePointer> to = outs == 1 ? all.last(1) : from;
          const double took = time_of(gpu, [&] {
            return loaded.kernels->launch(type, op, from, to, kBytes / size_of(type), gpu.stream);
          });
          const double rate = 1e-9 * static_cast<double>(ins + outs) * kBytes / took;
          fmt::print("limits: {} of {}, {} into {}: {:.0f} GB/s, {:.2f} of a copy\n", name_of(op),
                     name_of(type), ins, outs, rate, rate / best);
        }
}

// What a turn does between its wait and its write.
enum class Between { nothing, small_copy, small_kernel, copy_of_4_MiB, kernel_of_4_MiB };

double hand_over(std::byte* page, int me, Between between, int rounds) {
  Gpu gpu = start();
  must(gpu.driver.host_register(page, 4096, cuda::kRegisterPortable | cuda::kRegisterDeviceMap), "register");
  cuda::DevicePointer flags = 0;
  must(gpu.driver.host_device_pointer(&flags, page, 0), "pointer");
  const ReduceKernels* kernels = ReduceKernels::of(gpu.driver, gpu.context).kernels;
  constexpr Bytes kMost = Bytes{4} << 20;
  const std::vector<cuda::DevicePointer> buffers = {memory(gpu, kMost), memory(gpu, kMost)};
  const bool is_small = between == Between::small_copy || between == Between::small_kernel;
  const Bytes bytes = is_small ? 256 : kMost;
  auto work = [&]() -> cuda::Result {
    if (between == Between::nothing) return cuda::kSuccess;
    if (between == Between::small_copy || between == Between::copy_of_4_MiB)
      return gpu.driver.copy_on_device_async(buffers[1], buffers[0], bytes, gpu.stream);
    return kernels->launch(DType::float32, DeviceOp::sum, buffers, buffers, bytes / 4, gpu.stream);
  };
  auto write = [&](std::size_t line, std::uint32_t value) {
    must(gpu.driver.stream_write_value(gpu.stream, flags + line * kFlagStride, value,
                                       cuda::kWriteValueDefault),
         "write");
  };
  auto wait = [&](std::size_t line, std::uint32_t value) {
    must(gpu.driver.stream_wait_value(gpu.stream, flags + line * kFlagStride, value,
                                      cuda::kWaitValueGreaterOrEqual),
         "wait");
  };
  must(gpu.driver.stream_synchronize(gpu.stream), "synchronize");
  Nanoseconds began = 0;
  for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(rounds) + 20; ++i) {
    if (i == 20) {
      must(gpu.driver.stream_synchronize(gpu.stream), "synchronize");
      began = now();
    }
    if (me == 1) wait(0, i);
    must(work(), "work");
    write(static_cast<std::size_t>(me), i);
    if (me == 0) wait(1, i);
    if (i % 100 == 0) must(gpu.driver.stream_synchronize(gpu.stream), "synchronize");
  }
  must(gpu.driver.stream_synchronize(gpu.stream), "synchronize");
  return 1e-3 * static_cast<double>(now() - began) / rounds;
}

void measure_hand_overs() {
  const std::pair<Between, const char*> kinds[] = {{Between::nothing, "flags alone"},
                                                   {Between::small_copy, "a copy of 256 bytes each"},
                                                   {Between::small_kernel, "a kernel on 256 bytes each"},
                                                   {Between::copy_of_4_MiB, "a copy of 4 MiB each"},
                                                   {Between::kernel_of_4_MiB, "a kernel on 4 MiB each"}};
  for (auto [between, text] : kinds) {
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t ranks[2];
    for (int me = 0; me < 2; ++me)
      if ((ranks[me] = ::fork()) == 0) {
        const double took = hand_over(static_cast<std::byte*>(page), me, between, 400);
        if (me == 0) fmt::print("limits: there and back between two processes, {}: {:.1f} us\n", text, took);
        std::fflush(stdout);
        std::_Exit(0);
      }
    for (pid_t rank : ranks) {
      int status = 0;
      ::waitpid(rank, &status, 0);
      if (status != 0) std::exit(1);
    }
  }
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "kernels") == 0) return ddl::measure_kernels(), 0;
  if (argc == 2 && std::strcmp(argv[1], "hand_overs") == 0) return ddl::measure_hand_overs(), 0;
  fmt::print(stderr, "gpu_limits kernels|hand_overs\n");
  return 2;
}
