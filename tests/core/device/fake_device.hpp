// The test double of the CUDA driver in the test process: a context, streams, buffers with values.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/device/cuda_driver.hpp"

namespace ddl::test {

class FakeDevice : public ::testing::Test {
 protected:
  FakeDevice() : found_(cuda::find_driver(cuda::Load::kOnDemand, DDL_FAKE_CUDA)) {
    ::setenv("FAKE_CUDA_DEVICES", "3", 1);
    if (!found_.usable()) std::abort();  // see CudaDriver.EveryFunctionIsInTheTestDouble
    ok(cuda_.init(0));
    ok(cuda_.primary_retain(&context_, 0));
    ok(cuda_.context_set(context_));
  }
  ~FakeDevice() override {
    for (cuda::Stream stream : streams_) {
      cuda_.stream_synchronize(stream);
      cuda_.stream_destroy(stream);
    }
    for (cuda::DevicePointer pointer : buffers_) cuda_.free(pointer);
    cuda_.context_set(nullptr);
  }

  void ok(cuda::Result result) const { ASSERT_EQ(result, cuda::kSuccess) << cuda::describe(cuda_, result); }

  cuda::Stream stream(unsigned flags = cuda::kStreamNonBlocking) {
    cuda::Stream made = nullptr;
    ok(cuda_.stream_create(&made, flags));
    return streams_.emplace_back(made);
  }

  cuda::DevicePointer buffer(std::size_t bytes) {
    cuda::DevicePointer made = 0;
    ok(cuda_.allocate(&made, bytes));
    return buffers_.emplace_back(made);
  }

  template <typename T>
  cuda::DevicePointer buffer(const std::vector<T>& values) {
    cuda::DevicePointer made = buffer(values.size() * sizeof(T));
    // On a stream of its own: the default one would wait for others that a test holds up.
    cuda::Stream aside = stream();
    ok(cuda_.copy_to_device_async(made, values.data(), values.size() * sizeof(T), aside));
    ok(cuda_.stream_synchronize(aside));
    return made;
  }

  template <typename T>
  std::vector<T> values(cuda::DevicePointer at, std::size_t count) {
    std::vector<T> copied(count);
    cuda::Stream aside = stream();
    ok(cuda_.copy_to_host_async(copied.data(), at, count * sizeof(T), aside));
    ok(cuda_.stream_synchronize(aside));
    return copied;
  }

  /// Lets the n-th call from now of a function fail; 0: none.
  static void fail(const char* function, int nth, cuda::Result result) {
    control<int (*)(const char*, int, int)>("fake_cuda_fail")(function, nth, result);
  }
  static unsigned long calls_of(const char* function) {
    return control<unsigned long (*)(const char*)>("fake_cuda_calls")(function);
  }

  /// A kernel that runs until it is let go.
  class Obstacle {
   public:
    explicit Obstacle(cuda::Stream stream) {
      control<int (*)(cuda::Stream, void (*)(void*), void*)>("fake_cuda_enqueue")(
          stream,
          [](void* self) {
            while (!static_cast<Obstacle*>(self)->gone_)
              std::this_thread::sleep_for(std::chrono::microseconds(100));
            static_cast<Obstacle*>(self)->passed_ = true;
          },
          this);
    }
    ~Obstacle() {
      remove();
      while (!passed_) std::this_thread::yield();
    }
    void remove() { gone_ = true; }

   private:
    std::atomic<bool> gone_{false}, passed_{false};
  };

  template <typename Function>
  static Function control(const char* symbol) {
    return reinterpret_cast<Function>(::dlsym(::dlopen(DDL_FAKE_CUDA, RTLD_LAZY), symbol));
  }

  cuda::Found found_;
  const cuda::Driver& cuda_ = found_.driver;
  cuda::Context context_ = nullptr;
  std::vector<cuda::Stream> streams_;
  std::vector<cuda::DevicePointer> buffers_;
};

}  // namespace ddl::test
