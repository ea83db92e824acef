#include "core/device/cuda_driver.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/core/device/fake_device.hpp"

namespace ddl::cuda {
namespace {

TEST(CudaDriver, AMissingLibraryIsAValueWithAReason) {
  Found found = find_driver(Load::kOnDemand, "libno-such-driver.so.1");
  EXPECT_FALSE(found.usable());
  EXPECT_EQ(found.missing, "libno-such-driver.so.1 is not there, or cannot be loaded");
  EXPECT_EQ(found.driver.init, nullptr);
}

TEST(CudaDriver, WithoutDemandNothingIsLoaded) {
  // A library that nothing in this process uses.
  Found found = find_driver(Load::kOnlyIfLoaded, "libutil.so.1");
  EXPECT_FALSE(found.usable());
  EXPECT_EQ(found.missing, "libutil.so.1 is not loaded");
}

TEST(CudaDriver, AMissingFunctionIsNamed) {
  Found found = find_driver(Load::kOnDemand, "libm.so.6");
  EXPECT_FALSE(found.usable());
  EXPECT_EQ(found.missing, "the CUDA driver has no cuInit");
  EXPECT_EQ(describe(found.driver, kOutOfMemory), "CUDA error 2");
  EXPECT_FALSE(has_stream_memory_operations(found.driver, 0));
}

TEST(CudaDriver, EveryFunctionIsInTheTestDouble) {
  Found found = find_driver(Load::kOnDemand, DDL_FAKE_CUDA);
  EXPECT_EQ(found.missing, "");
#define DDL_CUDA(need, member, name, suffix, parameters) \
  EXPECT_NE(found.driver.member, nullptr) << #name #suffix;
#include "core/device/cuda_driver.def"
#undef DDL_CUDA
}

TEST(CudaDriver, ALoadedDriverIsFoundByItsName) {
  ASSERT_TRUE(find_driver(Load::kOnDemand, DDL_FAKE_CUDA).usable());
  EXPECT_TRUE(find_driver(Load::kOnlyIfLoaded).usable());
}

TEST(CudaDriver, AProcessHasOne) {
  ASSERT_TRUE(find_driver(Load::kOnDemand, DDL_FAKE_CUDA).usable());
  const Found* first = process_driver(Load::kOnlyIfLoaded);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(first->usable());
  EXPECT_EQ(process_driver(Load::kOnDemand), first);
}

using CudaDriverCalls = test::FakeDevice;

TEST_F(CudaDriverCalls, ErrorsHaveTheDriversNames) {
  EXPECT_EQ(describe(cuda_, kOutOfMemory), "CUDA_ERROR_OUT_OF_MEMORY: out of memory");
  EXPECT_EQ(describe(cuda_, 12345), "CUDA error 12345");
}

TEST_F(CudaDriverCalls, AContextIsCurrentOnlyWhileItIsHeld) {
  Context other = nullptr, current = nullptr;
  ok(cuda_.primary_retain(&other, 1));
  {
    CurrentContext held(cuda_, other);
    ok(held.result());
    ok(cuda_.context_current(&current));
    EXPECT_EQ(current, other);
    Device device = -1;
    ok(cuda_.context_device(&device));
    EXPECT_EQ(device, 1);
  }
  ok(cuda_.context_current(&current));
  EXPECT_EQ(current, context_);
}

TEST_F(CudaDriverCalls, AContextThatCannotBeHeldLeavesTheOtherOne) {
  Context current = nullptr;
  {
    CurrentContext held(cuda_, reinterpret_cast<Context>(&current));
    EXPECT_EQ(held.result(), kInvalidContext);
  }
  ok(cuda_.context_current(&current));
  EXPECT_EQ(current, context_);
}

TEST_F(CudaDriverCalls, StreamMemoryOperationsAreAskedOfTheDevice) {
  EXPECT_TRUE(has_stream_memory_operations(cuda_, 0));
  EXPECT_FALSE(has_stream_memory_operations(cuda_, 7));
  ::setenv("FAKE_CUDA_NO_STREAM_MEMORY_OPERATIONS", "1", 1);
  EXPECT_FALSE(has_stream_memory_operations(cuda_, 0));
  ::unsetenv("FAKE_CUDA_NO_STREAM_MEMORY_OPERATIONS");
  Driver old = cuda_;
  old.stream_wait_value = nullptr;
  EXPECT_FALSE(has_stream_memory_operations(old, 0));
}

}  // namespace
}  // namespace ddl::cuda
