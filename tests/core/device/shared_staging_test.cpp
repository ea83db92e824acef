// Staged calls on memory that ranks share.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "core/device/staged_call.hpp"
#include "tests/core/device/fake_device.hpp"
#include "tests/core/device/staged_doubling.hpp"

namespace ddl {
namespace {

using test::Floats;
using test::ramp;
using test::small;

// Ranks that see each other's memory: objects of one process, each with a stream.
class SharedStagingTest : public test::FakeDevice {
 protected:
  static constexpr Bytes kBytes = 64 << 10;

  void make_ranks(std::size_t count, StagedOptions options = small(), std::uint32_t workers = 2) {
    options.chunk_bytes = 8 << 10;  // there is room for chunks of all workers
    for (std::size_t r = 0; r < count; ++r) {
      void* memory = nullptr;
      ok(cuda_.host_allocate(&memory, kBytes, cuda::kHostPortable | cuda::kHostDeviceMap));
      std::fill_n(static_cast<std::byte*>(memory), kBytes, std::byte{});
      memory_.push_back(static_cast<std::byte*>(memory));
    }
    for (std::size_t r = 0; r < count; ++r) {
      SharedStaging with{r, memory_, 0, kBytes};
      ok(cuda_.host_device_pointer(&with.on_device, memory_[r], 0));
      ranks_.push_back(std::make_unique<StagedCalls>(cuda_, context_, options));
      ranks_.back()->use_workers(workers);
      ASSERT_EQ(ranks_.back()->workers(), workers);
      ranks_.back()->share(with);
    }
  }
  void TearDown() override {
    ranks_.clear();
    for (std::byte* memory : memory_) cuda_.host_free(memory);
  }

  /// A sum of floats, each rank its part of a chunk.
  Submitted submit_sum(std::size_t me, cuda::DevicePointer at, Bytes bytes, cuda::Stream on) {
    auto work = [me, ranks = memory_.size()](const StagedChunk& chunk) -> std::string {
      const std::size_t count = chunk.bytes / sizeof(float), parts = ranks * chunk.workers;
      const std::size_t share = (count + parts - 1) / parts, part = me * chunk.workers + chunk.worker;
      if (chunk.worker == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));  // the last of all
      for (std::size_t i = std::min(count, part * share); i < std::min(count, (part + 1) * share); ++i) {
        float sum = 0;
        for (const std::byte* in : chunk.ins) sum += reinterpret_cast<const float*>(in)[i];
        for (std::byte* out : chunk.outs) reinterpret_cast<float*>(out)[i] = sum;
      }
      return {};
    };
    return ranks_[me]->submit_shared(
        {at, at, bytes}, on, [this] { return ++met_, std::string(); }, work);
  }

  std::vector<std::byte*> memory_;
  std::vector<std::unique_ptr<StagedCalls>> ranks_;
  std::atomic<int> met_{0};
};

class SharedStagingOf : public SharedStagingTest, public ::testing::WithParamInterface<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Workers, SharedStagingOf, ::testing::Values(1, 2, 3));

TEST_P(SharedStagingOf, EachDoesItsShareOfAllChunks) {
  make_ranks(3, small(), GetParam());
  std::vector<cuda::Stream> streams = {stream(), stream(), stream()};
  int calls = 0;
  // The last four have ends of a few elements, of which not every rank has a share.
  for (std::size_t count : {1, 100, 5000, 40'000, 1986, 1988, 3978, 5962}) {
    std::vector<cuda::DevicePointer> at;
    Floats right = ramp(count, 0);
    for (float& one : right) one = 3 * one + 3;
    for (std::size_t r = 0; r < 3; ++r) at.push_back(buffer(ramp(count, static_cast<float>(r))));
    for (std::size_t r = 0; r < 3; ++r)
      ASSERT_EQ(submit_sum(r, at[r], count * sizeof(float), streams[r]), Submitted::kEnqueued);
    for (cuda::Stream one : streams) ok(cuda_.stream_synchronize(one));
    for (cuda::DevicePointer one : at) EXPECT_EQ(values<float>(one, count), right) << count;
    EXPECT_EQ(met_, 3 * ++calls);
  }
}

// Its input is there, and its share will never be: nothing but the stream waits for that.
TEST_F(SharedStagingTest, WhoEndsBeforeItsShareIsNotWaitedFor) {
  StagedOptions options = small();
  std::atomic<bool> is_gone{false};
  options.overdue = [&](const char*) { return is_gone ? std::string("rank 1 is gone") : std::string(); };
  make_ranks(2, options);
  cuda::Stream one = stream();
  cuda::DevicePointer at = buffer(ramp(100, 1));
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_[1])).store(1);  // chunk 1 is in slot 1 of 4
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_[1] + 3 * 64)).store(1);
  ASSERT_EQ(submit_sum(0, at, 400, one), Submitted::kEnqueued);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(cuda_.stream_query(one), cuda::kNotReady);
  is_gone = true;
  ok(cuda_.stream_synchronize(one));
  EXPECT_EQ(ranks_[0]->failure(), "rank 1 is gone");
}

}  // namespace
}  // namespace ddl
