// gpu_limits WHAT: what a GPU can do, to hold collectives against. Prints lines "limits: ...".
//   kernels     each reduction of k buffers into one and into k, against a copy on the device: GB/s of bytes
//               read and written
//   hand_overs  two processes that wait for each other's streams: microseconds from one to the other and back
//   copies      processes that copy to pinned memory and back, on one stream or two each: milliseconds
//   launches    what each call of the driver costs its caller, on a stream that waits: microseconds
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "core/base/clock.hpp"
#include "core/device/cuda_driver.hpp"
#include "core/device/flag_steps.hpp"
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

// Ordinary numbers of all types.
void fill(const Gpu& gpu, cuda::DevicePointer at, Bytes bytes) {
  must(gpu.driver.set_values(at, 0x3f803f80, bytes / 4, gpu.stream), "values");
}

cuda::DevicePointer memory(const Gpu& gpu, Bytes bytes) {
  cuda::DevicePointer made = 0;
  must(gpu.driver.allocate(&made, bytes), "memory");
  fill(gpu, made, bytes);
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
      for (std::size_t ins : {1, 2, 3, 4})
        for (std::size_t outs : {std::size_t{1}, ins}) {
          if (ins == 1 && op == DeviceOp::average) continue;
          std::span<const cuda::DevicePointer> all(buffers), from = all.first(ins);
          std::span<const cuda::DevicePointer> to = outs == 1 ? all.last(1) : from;
          for (cuda::DevicePointer one : all)
            fill(gpu, one, kBytes);  // sums in place grow beyond all numbers
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

// A process that copies the same bytes to the host and back, chunk by chunk.
double copy_both_ways(std::atomic<int>& there, int processes, std::size_t streams, Bytes chunk) {
  constexpr Bytes kBytes = Bytes{256} << 20, kArea = Bytes{16} << 20;
  constexpr int kTurns = 5;
  Gpu gpu = start();
  const cuda::DevicePointer on_device = memory(gpu, kBytes);
  void* pinned = nullptr;
  must(gpu.driver.host_allocate(&pinned, 2 * kArea, cuda::kHostPortable | cuda::kHostDeviceMap), "pinned");
  auto* in = static_cast<std::byte*>(pinned);
  cuda::Stream back = gpu.stream;
  if (streams == 2) must(gpu.driver.stream_create(&back, cuda::kStreamNonBlocking), "stream");
  must(gpu.driver.stream_synchronize(gpu.stream), "synchronize");
  std::vector<double> took;
  for (int turn = 1; turn <= kTurns; ++turn) {
    for (++there; there < turn * processes;) ::sched_yield();
    const Nanoseconds began = now();
    for (Bytes at = 0; at < kBytes; at += chunk) {
      must(gpu.driver.copy_to_host_async(in + at % kArea, on_device + at, chunk, gpu.stream), "copy");
      must(gpu.driver.copy_to_device_async(on_device + at, in + kArea + at % kArea, chunk, back), "copy");
    }
    must(gpu.driver.stream_synchronize(gpu.stream), "synchronize");
    must(gpu.driver.stream_synchronize(back), "synchronize");
    took.push_back(1e-6 * static_cast<double>(now() - began));
  }
  std::sort(took.begin(), took.end());
  return took[kTurns / 2];
}

// Runs `body` with its number in so many processes, each with a context of its own.
template <class Body>
void in_processes(int count, Body body) {
  std::vector<pid_t> ranks;
  for (int me = 0; me < count; ++me) {
    ranks.push_back(::fork());
    if (ranks.back() != 0) continue;
    body(me);
    std::fflush(stdout);
    std::_Exit(0);
  }
  for (pid_t rank : ranks) {
    int status = 0;
    ::waitpid(rank, &status, 0);
    if (status != 0) std::exit(1);
  }
}

std::byte* shared_page() {
  return static_cast<std::byte*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

void measure_copies() {
  for (int processes : {1, 2, 4})
    for (std::size_t streams : {1, 2})
      for (Bytes chunk : {Bytes{1} << 20, Bytes{2} << 20, Bytes{8} << 20}) {
        auto* there = new (shared_page()) std::atomic<int>(0);
        in_processes(processes, [&](int me) {
          const double took = copy_both_ways(*there, processes, streams, chunk);
          if (me == 0)
            fmt::print(
                "limits: {} processes, {} streams each, 256 MiB to the host and back in chunks of {} MiB: "
                "{:.2f} ms\n",
                processes, streams, chunk >> 20, took);
        });
      }
}

void measure_launches() {
  constexpr int kTimes = 100;
  Gpu gpu = start();
  const ReduceKernels* kernels = ReduceKernels::of(gpu.driver, gpu.context).kernels;
  void* page = nullptr;
  must(gpu.driver.host_allocate(&page, 4096, cuda::kHostPortable | cuda::kHostDeviceMap), "pinned");
  Flag held{new (page) std::uint32_t(0), 0},
      other{new (static_cast<std::byte*>(page) + kFlagStride) std::uint32_t(0), 0};
  must(gpu.driver.host_device_pointer(&held.on_device, page, 0), "pointer");
  other.on_device = held.on_device + kFlagStride;
  const std::vector<cuda::DevicePointer> buffers = {memory(gpu, Bytes{1} << 20), memory(gpu, Bytes{1} << 20)};
  std::uint32_t round = 0;
  FlagSteps steps;
  auto time = [&](const char* what, auto call) {
    for (bool waits : {true, false}) {
      must(gpu.driver.stream_synchronize(gpu.stream), "synchronize");
      ++round;
      if (waits) steps.await(held, round), must(steps.enqueue(gpu.driver, gpu.stream), "wait");
      const Nanoseconds began = now();
      for (int i = 0; i < kTimes; ++i) must(call(), what);
      const double took = 1e-3 * static_cast<double>(now() - began) / kTimes;
      held.set(round);
      fmt::print("limits: {}, on a stream that {}: {:.2f} us\n", what, waits ? "waits" : "runs", took);
    }
  };
  auto flags = [&](int raised, int awaited) {
    for (int i = 0; i < raised; ++i) steps.raise({&other.on_device, 1}, 7);
    for (int i = 0; i < awaited; ++i) steps.await(other, 0);
    return steps.enqueue(gpu.driver, gpu.stream);
  };
  auto kernel = [&] {
    return kernels->launch(DType::float32, DeviceOp::sum, buffers, buffers, (Bytes{1} << 20) / 4, gpu.stream);
  };
  const std::vector<cuda::DevicePointer> raised(4, other.on_device);
  auto kernel_that_raises = [&] {
    return kernels->launch(DType::float32, DeviceOp::sum, buffers, buffers, (Bytes{1} << 20) / 4, gpu.stream,
                           {raised, 7, 0});
  };
  must(kernel(), "kernel");
  for (int turn = 0; turn < 2; ++turn) {
    time("a copy of 1 MiB on the device",
         [&] { return gpu.driver.copy_on_device_async(buffers[1], buffers[0], Bytes{1} << 20, gpu.stream); });
    time("a kernel on 1 MiB", kernel);
    time("a kernel on 1 MiB that raises four flags", kernel_that_raises);
    time("a copy of 1 MiB by a kernel", [&] {
      return kernels->launch(DType::uint8, DeviceOp::sum, {&buffers[0], 1}, {&buffers[1], 1}, Bytes{1} << 20,
                             gpu.stream);
    });
    time("a flag raised", [&] { return flags(1, 0); });
    time("a flag awaited", [&] { return flags(0, 1); });
    time("one raised, two awaited", [&] { return flags(1, 2); });
    time("two raised", [&] { return flags(2, 0); });
    time("three raised, four awaited", [&] { return flags(3, 4); });
    time("four raised", [&] { return flags(4, 0); });
    time("a context, pushed and popped",
         [&] { return cuda::CurrentContext(gpu.driver, gpu.context).result(); });
    time("whether it is captured", [&] {
      int capture = 0;
      return cuda::capture_status(gpu.driver, gpu.stream, capture);
    });
    time("its number", [&] {
      unsigned long long id = 0;
      return gpu.driver.stream_id(gpu.stream, &id);
    });
  }
  must(gpu.driver.stream_synchronize(gpu.stream), "synchronize");
}

void measure_hand_overs() {
  const std::pair<Between, const char*> kinds[] = {{Between::nothing, "flags alone"},
                                                   {Between::small_copy, "a copy of 256 bytes each"},
                                                   {Between::small_kernel, "a kernel on 256 bytes each"},
                                                   {Between::copy_of_4_MiB, "a copy of 4 MiB each"},
                                                   {Between::kernel_of_4_MiB, "a kernel on 4 MiB each"}};
  for (auto [between, text] : kinds) {
    std::byte* page = shared_page();
    in_processes(2, [&](int me) {
      const double took = hand_over(page, me, between, 400);
      if (me == 0) fmt::print("limits: there and back between two processes, {}: {:.1f} us\n", text, took);
    });
  }
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "kernels") == 0) return ddl::measure_kernels(), 0;
  if (argc == 2 && std::strcmp(argv[1], "hand_overs") == 0) return ddl::measure_hand_overs(), 0;
  if (argc == 2 && std::strcmp(argv[1], "copies") == 0) return ddl::measure_copies(), 0;
  if (argc == 2 && std::strcmp(argv[1], "launches") == 0) return ddl::measure_launches(), 0;
  fmt::print(stderr, "gpu_limits kernels|hand_overs|copies|launches\n");
  return 2;
}
