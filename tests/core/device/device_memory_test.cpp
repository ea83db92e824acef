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

TEST_F(DeviceMemory, ACopyThatTheDriverRefusesIsReported) {
  cuda::DevicePointer from = buffer(8);
  ASSERT_TRUE(is_device_memory(at(from), at(from)));
  char host[16];
  EXPECT_FALSE(copy_device_memory(host, at(from), 16));
}

}  // namespace
}  // namespace ddl
