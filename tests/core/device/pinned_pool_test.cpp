#include "core/device/pinned_pool.hpp"

#include "tests/core/device/fake_device.hpp"

namespace ddl {
namespace {

constexpr Bytes kBytes = 77 * 4096;

class PinnedPool : public test::FakeDevice {
 protected:
  pinned_pool::Block take(Bytes bytes = kBytes) {
    pinned_pool::Block block;
    ok(pinned_pool::take(cuda_, context_, bytes, block));
    return block;
  }
};

TEST_F(PinnedPool, WhatIsGivenBackIsTakenAgainByWhoNeedsTheSame) {
  pinned_pool::Block first = take();
  pinned_pool::give_back(context_, first);
  unsigned long before = calls_of("cuMemHostAlloc");
  pinned_pool::Block again = take();
  EXPECT_EQ(again.host, first.host);
  EXPECT_EQ(again.device, first.device);
  EXPECT_EQ(calls_of("cuMemHostAlloc"), before);
  EXPECT_NE(take().host, first.host);
  EXPECT_NE(take(2 * kBytes).host, first.host);
}

TEST_F(PinnedPool, WhatTheDriverNoLongerKnowsIsNotTaken) {
  pinned_pool::Block block = take(3 * kBytes);
  ok(cuda_.host_free(block.host));
  pinned_pool::give_back(context_, block);
  unsigned long before = calls_of("cuMemHostAlloc");
  take(3 * kBytes);
  EXPECT_EQ(calls_of("cuMemHostAlloc"), before + 1);
}

TEST_F(PinnedPool, ARefusalIsAnAnswer) {
  pinned_pool::Block block;
  fail("cuMemHostAlloc", 1, cuda::kOutOfMemory);
  EXPECT_EQ(pinned_pool::take(cuda_, context_, 5 * kBytes, block), cuda::kOutOfMemory);
  EXPECT_EQ(block.host, nullptr);
}

}  // namespace
}  // namespace ddl
