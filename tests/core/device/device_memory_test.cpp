#include "core/device/device_memory.hpp"

#include <thread>

#include "tests/core/device/fake_device.hpp"

namespace ddl {
namespace {

using DeviceMemory = test::FakeDevice;

void* at(cuda::DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

TEST_F(DeviceMemory, OnlyWhatTheHostCannotReadIsDeviceMemory) {
  int own = 0, *also = &own;
  void* pinned = nullptr;
  ok(cuda_.host_allocate(&pinned, 64, cuda::kHostPortable));
  EXPECT_FALSE(is_device_memory(also, also));
  EXPECT_FALSE(is_device_memory(pinned, also));
  EXPECT_TRUE(is_device_memory(also, at(buffer(8))));
  EXPECT_TRUE(is_device_memory(at(buffer(8)), also));
  ok(cuda_.host_free(pinned));
}

TEST_F(DeviceMemory, IsCopiedByAThreadThatHasNoContext) {
  cuda::DevicePointer from = buffer(std::vector<int>{1, 2, 3});
  ASSERT_TRUE(is_device_memory(at(from), at(from)));
  std::vector<int> host(3);
  std::thread other([&] {
    EXPECT_TRUE(copy_device_memory(host.data(), at(from), 3 * sizeof(int)));
    cuda::Context left = context_;
    ok(cuda_.context_current(&left));
    EXPECT_EQ(left, nullptr);
  });
  other.join();
  EXPECT_EQ(host, (std::vector<int>{1, 2, 3}));
}

// A stream that does not wait for the legacy default one reads it at once.
TEST_F(DeviceMemory, IsThereWhenACopyFromPageableMemoryReturns) {
  cuda::DevicePointer to = buffer(std::vector<int>{0, 0, 0});
  ASSERT_TRUE(is_device_memory(at(to), at(to)));
  std::vector<int> host = {4, 5, 6};
  EXPECT_TRUE(copy_device_memory(at(to), host.data(), 3 * sizeof(int)));
  EXPECT_EQ(values<int>(to, 3), host);
}

TEST_F(DeviceMemory, OfAPoolBelongsToADeviceAndToNoContext) {
  cuda::DevicePointer pooled = 0;
  ok(control<cuda::Result (*)(cuda::DevicePointer*, std::size_t, cuda::Stream)>("cuMemAllocAsync")(
      &pooled, 64, cuda::kStreamLegacy));
  buffers_.push_back(pooled);
  ASSERT_TRUE(is_device_memory(at(pooled), at(pooled)));
  std::vector<int> host = {7, 8, 9}, back(3);
  unsigned long before = calls_of("cuMemHostAlloc");
  HostCopy pinned(100'000, at(pooled), at(pooled));
  EXPECT_EQ(calls_of("cuMemHostAlloc"), before + 1);
  std::thread other([&] {  // which has no context
    EXPECT_TRUE(copy_device_memory(at(pooled), host.data(), 3 * sizeof(int)));
    EXPECT_TRUE(copy_device_memory(back.data(), at(pooled), 3 * sizeof(int)));
  });
  other.join();
  EXPECT_EQ(back, host);
}

TEST_F(DeviceMemory, ACopyThatTheDriverRefusesIsReported) {
  cuda::DevicePointer from = buffer(8);
  ASSERT_TRUE(is_device_memory(at(from), at(from)));
  char host[16];
  EXPECT_FALSE(copy_device_memory(host, at(from), 16));
}

}  // namespace
}  // namespace ddl
