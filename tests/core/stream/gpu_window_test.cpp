#include "core/stream/gpu_window.hpp"

#include "core/base/error.hpp"
#include "tests/core/device/fake_device.hpp"

namespace ddl {
namespace {

class GpuWindow : public test::FakeDevice {
 protected:
  static constexpr Bytes kBytes = 100'000;
};

TEST_F(GpuWindow, IsUsedAgainAfterItWasGivenBack) {
  gpu_window::Own own = gpu_window::take(cuda_, context_, kBytes);
  cuda::DevicePointer memory = own.window.memory;
  std::uint64_t nonce = own.endpoint.nonce;
  gpu_window::Own other = gpu_window::take(cuda_, context_, kBytes);
  EXPECT_NE(other.window.memory, memory);
  EXPECT_NE(other.endpoint.nonce, nonce);
  gpu_window::give_back(std::move(own));
  own = gpu_window::take(cuda_, context_, kBytes);
  EXPECT_EQ(own.window.memory, memory);
  EXPECT_EQ(own.endpoint.nonce, nonce);
  EXPECT_EQ(own.endpoint.flags_file, own.flags->fd());
  gpu_window::give_back(std::move(own));
  gpu_window::give_back(std::move(other));
}

TEST_F(GpuWindow, ItsFlagsAreSharedMemoryThatStreamsReach) {
  gpu_window::Own own = gpu_window::take(cuda_, context_, kBytes);
  std::optional<Region> elsewhere =
      Region::attach(own.endpoint.process, own.endpoint.flags_file, own.endpoint.nonce);
  ASSERT_TRUE(elsewhere);
  cuda::Stream on = stream();
  ok(cuda_.stream_write_value(on, own.window.flags_on_device + kFlagStride, 42, cuda::kWriteValueDefault));
  ok(cuda_.stream_synchronize(on));
  EXPECT_EQ(elsewhere->at(own.flags->offset_of(own.window.flags))[kFlagStride], std::byte{42});
  gpu_window::give_back(std::move(own));
}

TEST_F(GpuWindow, IsTheSameWithinAProcessIfTheContextIs) {
  gpu_window::Own own = gpu_window::take(cuda_, context_, kBytes);
  DeviceWindow seen = gpu_window::open(cuda_, context_, own.endpoint);
  EXPECT_EQ(seen.memory, own.window.memory);
  EXPECT_EQ(seen.flags, own.window.flags);
  cuda::Context other = nullptr;
  ok(cuda_.primary_retain(&other, 1));
  EXPECT_THROW(gpu_window::open(cuda_, other, own.endpoint), Error);
  gpu_window::ExportedWindow of_another_context = own.endpoint;  // of the same GPU
  of_another_context.context = other;
  EXPECT_THROW(gpu_window::open(cuda_, context_, of_another_context), Error);
  gpu_window::give_back(std::move(own));
}

TEST_F(GpuWindow, OfARankThatIsGoneIsAnError) {
  gpu_window::Own own = gpu_window::take(cuda_, context_, kBytes);
  gpu_window::ExportedWindow endpoint = own.endpoint;
  endpoint.of_process += 1;  // as if it were another one's
  endpoint.nonce += 1;
  EXPECT_THROW(gpu_window::open(cuda_, context_, endpoint), Error);
  gpu_window::abandon(std::move(own));
  own = gpu_window::take(cuda_, context_, kBytes);
  EXPECT_NE(own.endpoint.nonce + 1, endpoint.nonce);
  gpu_window::give_back(std::move(own));
}

TEST_F(GpuWindow, WhatCannotBeShownIsNotAllocatedAgain) {
  cuda::Context other = nullptr;
  ok(cuda_.primary_retain(&other, 1));
  fail("cuIpcGetMemHandle", 1, cuda::kNotSupported);
  EXPECT_THROW(gpu_window::take(cuda_, other, kBytes), Error);
  unsigned long allocated = calls_of("cuMemAlloc");
  EXPECT_THROW(gpu_window::take(cuda_, other, kBytes), Error);
  EXPECT_EQ(calls_of("cuMemAlloc"), allocated);
}

}  // namespace
}  // namespace ddl
