// The test double has to be as strict as a driver: what these tests show, others rely on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/device/kernels/arguments.hpp"
#include "tests/core/device/fake_device.hpp"

namespace ddl::cuda {
namespace {

class FakeCuda : public test::FakeDevice {
 protected:
  std::uint32_t* pinned_value() {
    void* memory = nullptr;
    ok(cuda_.host_allocate(&memory, 64, kHostPortable | kHostDeviceMap));
    DevicePointer on_device = 0;
    ok(cuda_.host_device_pointer(&on_device, memory, 0));
    EXPECT_EQ(on_device, reinterpret_cast<DevicePointer>(memory));
    return new (memory) std::uint32_t(0);
  }
  static DevicePointer address(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }
};

TEST_F(FakeCuda, SaysWhatItIs) {
  char name[64];
  ok(cuda_.device_name(name, sizeof name, 0));
  EXPECT_STREQ(name, "test double of a GPU");
}

TEST_F(FakeCuda, HasAsManyDevicesAsAskedForAndEachItsOwnIdentity) {
  int count = 0;
  ok(cuda_.device_count(&count));
  EXPECT_EQ(count, 3);
  Uuid one, other;
  ok(cuda_.device_uuid(&one, 0));
  ok(cuda_.device_uuid(&other, 1));
  EXPECT_NE(std::memcmp(&one, &other, sizeof one), 0);
  EXPECT_EQ(cuda_.device_uuid(&one, 3), kInvalidDevice);
}

TEST_F(FakeCuda, TheHostCannotReadDeviceMemory) {
  DevicePointer at = buffer(std::vector<int>{1, 2, 3});
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  EXPECT_EQ(::write(pipe_ends[1], reinterpret_cast<void*>(at), 4), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  EXPECT_EQ(values<int>(at, 3), (std::vector<int>{1, 2, 3}));
}

TEST_F(FakeCuda, CopiesPastTheEndOrFromNowhereAreRefused) {
  DevicePointer at = buffer(100);
  std::vector<char> host(200);
  EXPECT_EQ(cuda_.copy_to_host_async(host.data(), at, 101, stream()), kInvalidValue);
  EXPECT_EQ(cuda_.copy_to_host_async(host.data(), at + 1, 100, stream()), kInvalidValue);
  EXPECT_EQ(cuda_.copy_to_host_async(host.data(), address(host.data()), 1, stream()), kInvalidValue);
  EXPECT_EQ(cuda_.copy_to_device_async(at, host.data(), 100, reinterpret_cast<Stream>(&at)), kInvalidHandle);
}

TEST_F(FakeCuda, PointersAreToldApart) {
  unsigned type = 0;
  int own = 0;
  ok(cuda_.pointer_attribute(&type, kPointerMemoryType, buffer(8)));
  EXPECT_EQ(type, kMemoryTypeDevice);
  std::uint32_t* pinned = pinned_value();
  ok(cuda_.pointer_attribute(&type, kPointerMemoryType, address(pinned)));
  EXPECT_EQ(type, kMemoryTypeHost);
  EXPECT_EQ(cuda_.pointer_attribute(&type, kPointerMemoryType, address(&own)), kInvalidValue);
  ok(cuda_.host_free(pinned));
}

TEST_F(FakeCuda, AStreamKeepsItsOrderAndStreamsAreIndependent) {
  Stream held = stream(), free = stream();
  DevicePointer one = buffer(std::vector<int>{1}), two = buffer(std::vector<int>{2}),
                to = buffer(sizeof(int));
  Obstacle obstacle(held);
  ok(cuda_.copy_on_device_async(to, one, sizeof(int), held));
  ok(cuda_.copy_on_device_async(to, two, sizeof(int), free));
  ok(cuda_.stream_synchronize(free));
  EXPECT_EQ(values<int>(to, 1)[0], 2);
  EXPECT_EQ(cuda_.stream_query(held), kNotReady);
  obstacle.remove();
  ok(cuda_.stream_synchronize(held));
  EXPECT_EQ(values<int>(to, 1)[0], 1);
  EXPECT_EQ(cuda_.stream_query(held), kSuccess);
}

TEST_F(FakeCuda, AStreamWaitsForAValueThatAnotherWrites) {
  std::uint32_t* value = pinned_value();
  Stream waits = stream(), writes = stream();
  DevicePointer from = buffer(std::vector<int>{7}), to = buffer(std::vector<int>{0});
  ok(cuda_.stream_wait_value(waits, address(value), 5, kWaitValueGreaterOrEqual));
  ok(cuda_.copy_on_device_async(to, from, sizeof(int), waits));
  ok(cuda_.stream_write_value(writes, address(value), 4, 0));
  ok(cuda_.stream_synchronize(writes));
  EXPECT_EQ(cuda_.stream_query(waits), kNotReady);
  EXPECT_EQ(values<int>(to, 1)[0], 0);
  ok(cuda_.stream_write_value(writes, address(value), 6, 0));
  ok(cuda_.stream_synchronize(waits));
  EXPECT_EQ(values<int>(to, 1)[0], 7);
  ok(cuda_.host_free(value));
}

TEST_F(FakeCuda, ValuesWrapAndOrdinaryMemoryHoldsNone) {
  std::uint32_t* value = pinned_value();
  *value = 3;
  Stream waits = stream();
  ok(cuda_.stream_wait_value(waits, address(value), 0xffff'fff0u, kWaitValueGreaterOrEqual));
  ok(cuda_.stream_synchronize(waits));
  alignas(4) std::uint32_t own = 0;
  EXPECT_EQ(cuda_.stream_write_value(waits, address(&own), 1, 0), kInvalidValue);
  ok(cuda_.host_free(value));
}

TEST_F(FakeCuda, AnEventIsReachedWhenWhatCameBeforeItIsDone) {
  Stream first = stream(), second = stream();
  Event event = nullptr;
  ok(cuda_.event_create(&event, kEventNoTiming));
  EXPECT_EQ(cuda_.event_query(event), kSuccess);  // never recorded
  Obstacle obstacle(first);
  ok(cuda_.event_record(event, first));
  ok(cuda_.stream_wait_event(second, event, 0));
  EXPECT_EQ(cuda_.event_query(event), kNotReady);
  EXPECT_EQ(cuda_.stream_query(second), kNotReady);
  obstacle.remove();
  ok(cuda_.event_synchronize(event));
  ok(cuda_.stream_synchronize(second));
  ok(cuda_.event_destroy(event));
  EXPECT_EQ(cuda_.event_query(event), kInvalidHandle);
}

TEST_F(FakeCuda, TheDefaultStreamAndBlockingStreamsWaitForEachOther) {
  Stream blocking = stream(0), independent = stream();
  {
    Obstacle obstacle(blocking);
    ok(cuda_.launch_host_function(
        nullptr, [](void*) {}, nullptr));
    EXPECT_EQ(cuda_.stream_query(nullptr), kNotReady);
  }
  ok(cuda_.stream_synchronize(nullptr));
  Obstacle obstacle(kStreamLegacy);
  ok(cuda_.launch_host_function(
      blocking, [](void*) {}, nullptr));
  ok(cuda_.launch_host_function(
      independent, [](void*) {}, nullptr));
  ok(cuda_.stream_synchronize(independent));
  EXPECT_EQ(cuda_.stream_query(blocking), kNotReady);
  obstacle.remove();
  ok(cuda_.stream_synchronize(blocking));
}

TEST_F(FakeCuda, AThreadHasADefaultStreamOfItsOwn) {
  Obstacle obstacle(kStreamPerThread);
  EXPECT_EQ(cuda_.stream_query(kStreamPerThread), kNotReady);
  std::thread other([&] {
    ok(cuda_.context_set(context_));
    EXPECT_EQ(cuda_.stream_query(kStreamPerThread), kSuccess);
  });
  other.join();
}

TEST_F(FakeCuda, AFullQueueKeepsWhoEnqueuesWaiting) {
  ::setenv("FAKE_CUDA_QUEUE", "2", 1);
  Stream full = stream();
  Obstacle obstacle(full);
  std::atomic<int> enqueued{0};
  std::thread other([&] {
    ok(cuda_.context_set(context_));
    for (; enqueued < 10; ++enqueued)
      ok(cuda_.launch_host_function(
          full, [](void*) {}, nullptr));
  });
  while (enqueued < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that it would go on if it could
  EXPECT_LE(enqueued, 3) << "the obstacle may not have begun";
  obstacle.remove();
  other.join();
  ::unsetenv("FAKE_CUDA_QUEUE");
}

TEST_F(FakeCuda, WithoutAContextCallsFail) {
  ok(cuda_.context_set(nullptr));
  DevicePointer at = 0;
  EXPECT_EQ(cuda_.allocate(&at, 8), kInvalidContext);
  EXPECT_EQ(cuda_.stream_query(nullptr), kInvalidContext);
  ok(cuda_.context_set(context_));
}

TEST_F(FakeCuda, MemoryEndsAndStaleHandlesAreRefused) {
  DevicePointer at = 0;
  EXPECT_EQ(cuda_.allocate(&at, std::size_t{1} << 40), kOutOfMemory);
  ok(cuda_.allocate(&at, 8));
  ok(cuda_.free(at));
  EXPECT_EQ(cuda_.free(at), kInvalidValue);
  Stream gone = nullptr;
  ok(cuda_.stream_create(&gone, 0));
  ok(cuda_.stream_destroy(gone));
  EXPECT_EQ(cuda_.stream_query(gone), kInvalidHandle);
}

// That it is opened elsewhere, and is the same memory there, is what the stream clients of tests/nccl live
// by.
TEST_F(FakeCuda, AnExportedBufferIsNotOpenedInItsOwnProcess) {
  DevicePointer at = buffer(std::vector<int>{1, 2, 3}), opened = 0;
  IpcHandle handle;
  ok(cuda_.ipc_get_handle(&handle, at));
  EXPECT_EQ(cuda_.ipc_open_handle(&opened, handle, kIpcLazyPeerAccess), kInvalidValue);
  EXPECT_EQ(cuda_.ipc_close_handle(at), kInvalidValue);
  EXPECT_EQ(cuda_.ipc_get_handle(&handle, at + 4), kInvalidValue);
}

TEST_F(FakeCuda, MemoryThatWasThereBeforeIsPinnedOnceAndByPages) {
  alignas(4096) static std::byte memory[8192];
  DevicePointer on_device = 0;
  EXPECT_EQ(cuda_.host_device_pointer(&on_device, memory, 0), kInvalidValue);
  ok(cuda_.host_register(memory, 100, kRegisterPortable | kRegisterDeviceMap));
  EXPECT_EQ(cuda_.host_register(memory + 4000, 200, kRegisterPortable), kAlreadyRegistered);
  ok(cuda_.host_device_pointer(&on_device, memory + 64, 0));
  Stream on = stream();
  ok(cuda_.stream_write_value(on, on_device, 7, kWriteValueDefault));
  ok(cuda_.stream_synchronize(on));
  EXPECT_EQ(memory[64], std::byte{7});
  EXPECT_EQ(cuda_.host_free(memory), kInvalidValue);
  ok(cuda_.host_unregister(memory));
  EXPECT_EQ(cuda_.host_unregister(memory), kInvalidValue);
}

TEST_F(FakeCuda, OnlyFatbinsAreModulesAndOnlyKnownKernelsAreLaunched) {
  alignas(8) std::uint32_t fatbin[16] = {0xba55ed50}, other[16] = {};
  Module module = nullptr;
  Function function = nullptr;
  EXPECT_EQ(cuda_.module_load(&module, other), kInvalidImage);
  ok(cuda_.module_load(&module, fatbin));
  EXPECT_EQ(cuda_.module_function(&function, module, "ddl_reduce_sum_float80"), kNotFound);
  ok(cuda_.module_function(&function, module, "ddl_reduce_sum_float32"));
  Stream on = stream();
  DevicePointer at = buffer(std::vector<float>{1, 2, 3});
  kernels::ReduceArguments arguments{};
  arguments.in[0] = arguments.in[1] = arguments.out[0] = at;
  arguments.count = 3;
  arguments.ins = 2;
  arguments.outs = 1;
  void* parameters[] = {&arguments};
  auto launch = [&](unsigned grid, unsigned block) {
    return cuda_.launch(function, grid, 1, 1, block, 1, 1, 0, on, parameters, nullptr);
  };
  EXPECT_EQ(launch(0, 256), kInvalidValue);
  EXPECT_EQ(launch(1, 0), kInvalidValue);
  EXPECT_EQ(launch(1, 2048), kInvalidValue);
  ok(launch(1, 256));
  ok(cuda_.stream_synchronize(on));
  EXPECT_EQ(values<float>(at, 3), (std::vector<float>{2, 4, 6}));
  arguments.in[1] = at + 4;
  EXPECT_EQ(launch(1, 256), kIllegalAddress);
  EXPECT_EQ(cuda_.launch(reinterpret_cast<Function>(&at), 1, 1, 1, 256, 1, 1, 0, on, parameters, nullptr),
            kInvalidHandle);
  ok(cuda_.module_unload(module));
  EXPECT_EQ(cuda_.module_unload(module), kInvalidHandle);
}

}  // namespace
}  // namespace ddl::cuda
