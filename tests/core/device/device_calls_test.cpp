#include "core/device/device_calls.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "core/device/kernels_image.hpp"
#include "core/reduce/reduce.hpp"
#include "tests/core/device/fake_device.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {
namespace {

using Floats = std::vector<float>;

// The ranks are objects of one process, each with a stream; they see each other's windows as they are.
class DeviceCallsTest : public test::FakeDevice {
 protected:
  struct Rank {
    std::unique_ptr<DeviceCalls> calls;
    cuda::Stream stream;
  };

  void SetUp() override {
    if (kernels_image().empty()) GTEST_SKIP() << "this build has no device kernels";
    kernels_ = ReduceKernels::of(cuda_, context_).kernels;
    ASSERT_NE(kernels_, nullptr);
  }
  void TearDown() override {
    ranks_.clear();
    for (void* flags : flags_) cuda_.host_free(flags);
  }

  std::vector<Rank>& make_ranks(std::size_t count, Bytes staging = 1024, std::uint32_t first_value = 1) {
    DeviceCalls::Layout layout{0, {}, staging, 0, first_value};
    for (std::size_t r = 0; r < count; ++r) {
      void* flags = nullptr;
      DeviceWindow window{buffer(staging), nullptr, 0};
      ok(cuda_.host_allocate(&flags, DeviceCalls::kFlagBytes, cuda::kHostPortable | cuda::kHostDeviceMap));
      ok(cuda_.host_device_pointer(&window.flags_on_device, flags, 0));
      window.flags = static_cast<std::byte*>(flags_.emplace_back(flags));
      layout.windows.push_back(window);
    }
    windows_ = layout.windows;
    for (layout.me = 0; layout.me < count; ++layout.me) {
      layout.raiser = static_cast<unsigned>(layout.me);
      ranks_.push_back({std::make_unique<DeviceCalls>(cuda_, context_, kernels_, layout), stream()});
    }
    return ranks_;
  }

  static Floats values_of(std::size_t rank, std::size_t count) {
    Floats values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = 0.1f * static_cast<float>(i % 977 + 1) * static_cast<float>(rank + 1);
    return values;
  }
  static Floats sum_of(std::size_t ranks, std::size_t count) {
    std::vector<Floats> all;
    std::vector<const void*> sources;
    for (std::size_t r = 0; r < ranks; ++r) all.push_back(values_of(r, count));
    for (const Floats& one : all) sources.push_back(one.data());
    Floats sum(count);
    reduce(DType::float32, Op::sum, sum.data(), sources, count);
    return sum;
  }

  /// One call by all; where each rank's result will be.
  std::vector<cuda::DevicePointer> submit_all(std::size_t count, DType type = DType::float32) {
    std::vector<cuda::DevicePointer> outs;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      cuda::DevicePointer at = buffer(values_of(r, count));
      EXPECT_EQ(ranks_[r].calls->submit({at, at, count, type, DeviceOp::sum}, ranks_[r].stream),
                Submitted::kEnqueued);
      outs.push_back(at);
    }
    return outs;
  }
  void agree(std::uint64_t number) {
    for (Rank& rank : ranks_) rank.calls->agree(number);
  }
  void synchronize() {
    for (Rank& rank : ranks_) ok(cuda_.stream_synchronize(rank.stream));
  }

  const ReduceKernels* kernels_ = nullptr;
  std::vector<void*> flags_;
  std::vector<DeviceWindow> windows_;
  std::vector<Rank> ranks_;
};

TEST_F(DeviceCallsTest, AllRanksGetTheBitsOfASumInRankOrder) {
  for (std::size_t ranks : {2, 3, 4, 7}) {
    make_ranks(ranks, 2048);
    std::uint64_t number = 0;
    for (std::size_t count : {1, 2, 63, 64, 255, 512, 513, 1024, 5003}) {
      auto outs = submit_all(count);
      agree(++number);
      synchronize();
      for (cuda::DevicePointer out : outs)
        EXPECT_EQ(values<float>(out, count), sum_of(ranks, count)) << ranks << " " << count;
    }
    for (Rank& rank : ranks_) {
      EXPECT_EQ(rank.calls->passed(), number);
      EXPECT_TRUE(rank.calls->is_done());
    }
    ranks_.clear();
  }
}

TEST_F(DeviceCallsTest, BuffersMayLieAnywhereAndBeDifferent) {
  make_ranks(3);
  constexpr std::size_t kCount = 3001;
  std::vector<cuda::DevicePointer> outs;
  for (std::size_t r = 0; r < 3; ++r) {
    std::vector<std::uint8_t> in(kCount + r + 1, static_cast<std::uint8_t>(100 + r));
    outs.push_back(buffer(kCount + 8) + 5 - r);
    DeviceReduction call{buffer(in) + r + 1, outs[r], kCount, DType::uint8, DeviceOp::sum};
    ASSERT_EQ(ranks_[r].calls->submit(call, ranks_[r].stream), Submitted::kEnqueued);
  }
  agree(1);
  synchronize();
  std::vector<std::uint8_t> right(kCount, 303 - 256);
  for (cuda::DevicePointer out : outs) EXPECT_EQ(values<std::uint8_t>(out, kCount), right);
}

TEST_F(DeviceCallsTest, OneRankOnlyCopies) {
  make_ranks(1);
  Floats in = values_of(0, 1000);
  cuda::DevicePointer from = buffer(in), to = buffer(4000);
  EXPECT_EQ(ranks_[0].calls->submit({from, to, 1000, DType::float32, DeviceOp::average}, ranks_[0].stream),
            Submitted::kEnqueued);
  synchronize();
  EXPECT_EQ(values<float>(to, 1000), in);
}

TEST_F(DeviceCallsTest, NothingIsWrittenBeforeAllAgree) {
  make_ranks(2);
  auto outs = submit_all(1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(cuda_.stream_query(ranks_[0].stream), cuda::kNotReady);
  EXPECT_EQ(values<float>(outs[1], 1000), values_of(1, 1000));
  EXPECT_EQ(ranks_[0].calls->passed(), 0u);
  ranks_[0].calls->agree(1);
  EXPECT_EQ(cuda_.stream_query(ranks_[1].stream), cuda::kNotReady);
  ranks_[1].calls->agree(1);
  synchronize();
  EXPECT_EQ(values<float>(outs[1], 1000), sum_of(2, 1000));
}

TEST_F(DeviceCallsTest, CallsOnOtherStreamsComeOneAfterTheOther) {
  make_ranks(2);
  cuda::Stream first = ranks_[0].stream;
  Obstacle obstacle(first);
  auto one = submit_all(700);
  ranks_[0].stream = stream();
  auto two = submit_all(900);
  agree(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(cuda_.stream_query(ranks_[0].stream), cuda::kNotReady);
  obstacle.remove();
  synchronize();
  ok(cuda_.stream_synchronize(first));
  EXPECT_EQ(values<float>(one[0], 700), sum_of(2, 700));
  EXPECT_EQ(values<float>(two[1], 900), sum_of(2, 900));
}

// Who has its result may go, and its staging be used again, only when the others have theirs.
TEST_F(DeviceCallsTest, OneIsDoneWhenTheOthersReadNoMore) {
  make_ranks(2);
  submit_all(600);
  agree(1);
  synchronize();
  EXPECT_TRUE(ranks_[0].calls->is_done());
  auto gone = std::atomic_ref(*reinterpret_cast<std::uint32_t*>(windows_[0].flags + kFlagStride + 4));
  const std::uint32_t raised = gone.exchange(1);  // as if rank 1 had not come so far
  EXPECT_EQ(ranks_[0].calls->passed(), 1u);
  EXPECT_FALSE(ranks_[0].calls->is_done());
  EXPECT_TRUE(ranks_[0].calls->is_waiting_for_others());
  gone = raised;
  EXPECT_TRUE(ranks_[0].calls->is_done());
}

// A rank may be a chunk ahead of another that reads what the first has just replaced.
TEST_F(DeviceCallsTest, ManyChunksOfRanksThatRunApart) {
  for (int turn = 0; turn < 20 / test::thinned(4); ++turn) {
    make_ranks(3, 512);
    auto outs = submit_all(20000);
    agree(1);
    synchronize();
    for (cuda::DevicePointer out : outs) ASSERT_EQ(values<float>(out, 20000), sum_of(3, 20000)) << turn;
    ranks_.clear();
  }
}

TEST_F(DeviceCallsTest, FlagsMayWrap) {
  make_ranks(2, 1024, 0xfffffff9);
  for (std::uint64_t number = 1; number <= 8; ++number) {
    auto outs = submit_all(600);
    agree(number);
    synchronize();
    EXPECT_EQ(values<float>(outs[0], 600), sum_of(2, 600));
    EXPECT_EQ(ranks_[1].calls->passed(), number);
  }
}

TEST_F(DeviceCallsTest, WhoWaitsForACallThatOthersNeverMakeIsLetGo) {
  make_ranks(2);
  cuda::DevicePointer at = buffer(values_of(0, 5000));
  DeviceReduction call{at, at, 5000, DType::float32, DeviceOp::sum};
  ASSERT_EQ(ranks_[0].calls->submit(call, ranks_[0].stream), Submitted::kEnqueued);
  ranks_[0].calls->agree(1);
  EXPECT_EQ(cuda_.stream_query(ranks_[0].stream), cuda::kNotReady);
  ranks_[0].calls->let_go();
  synchronize();
  EXPECT_EQ(ranks_[0].calls->passed(), ranks_[0].calls->submitted());
  EXPECT_FALSE(ranks_[0].calls->is_done());
  EXPECT_EQ(ranks_[0].calls->submit(call, ranks_[0].stream), Submitted::kFailed);
}

TEST_F(DeviceCallsTest, AFlagThatIsPutBackAfterwardsHoldsNobodyForLong) {
  make_ranks(2);
  Obstacle obstacle(ranks_[0].stream);
  cuda::DevicePointer at = buffer(values_of(0, 100));
  DeviceReduction call{at, at, 100, DType::float32, DeviceOp::sum};
  ASSERT_EQ(ranks_[0].calls->submit(call, ranks_[0].stream), Submitted::kEnqueued);
  ranks_[0].calls->let_go();
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(windows_[0].flags + kFlagStride))
      .store(1);  // by rank 1, late
  obstacle.remove();
  while (ranks_[0].calls->passed() == 0) ranks_[0].calls->let_go();
  synchronize();
}

TEST_F(DeviceCallsTest, WhatCudaRefusesIsSaidAndTheStreamGoesOnOnceLetGo) {
  for (const char* function : {"cuMemcpyDtoDAsync", "cuStreamBatchMemOp", "cuLaunchKernel"}) {
    make_ranks(2);
    cuda::DevicePointer at = buffer(values_of(0, 100));
    fail(function, 1, cuda::kIllegalAddress);
    DeviceReduction call{at, at, 100, DType::float32, DeviceOp::sum};
    EXPECT_EQ(ranks_[0].calls->submit(call, ranks_[0].stream), Submitted::kFailed) << function;
    EXPECT_NE(ranks_[0].calls->failure().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
    ranks_[0].calls->let_go();
    synchronize();
    EXPECT_EQ(ranks_[0].calls->passed(), 1u) << function;
    ranks_.clear();
  }
}

TEST_F(DeviceCallsTest, WhatCudaRefusesInAnyChunkHoldsNobody) {
  for (const char* function : {"cuMemcpyDtoDAsync", "cuStreamBatchMemOp", "cuLaunchKernel"})
    for (int nth = 2; nth <= 8; ++nth) {  // of as many chunks
      make_ranks(2);
      cuda::DevicePointer at = buffer(values_of(0, 1000));
      fail(function, nth, cuda::kIllegalAddress);
      DeviceReduction call{at, at, 1000, DType::float32, DeviceOp::sum};
      EXPECT_EQ(ranks_[0].calls->submit(call, ranks_[0].stream), Submitted::kFailed)
          << function << " " << nth;
      while (ranks_[0].calls->passed() == 0) ranks_[0].calls->let_go();
      synchronize();
      ranks_.clear();
    }
}

TEST_F(DeviceCallsTest, ACallWithoutElementsPassesAndIsPassed) {
  make_ranks(2);
  for (Rank& rank : ranks_)
    EXPECT_EQ(rank.calls->submit({0, 0, 0, DType::float32, DeviceOp::sum}, rank.stream),
              Submitted::kEnqueued);
  agree(1);
  auto outs = submit_all(100);
  agree(2);
  synchronize();
  EXPECT_EQ(values<float>(outs[0], 100), sum_of(2, 100));
  for (Rank& rank : ranks_) EXPECT_TRUE(rank.calls->is_done());
}

// The driver may let who enqueues wait: for room in a queue, or for the kernel that it launches.
TEST_F(DeviceCallsTest, WhoIsKeptWaitingInACallCanBeAgreedWith) {
  for (auto [name, value] : {std::pair("FAKE_CUDA_QUEUE", "4"), {"CUDA_LAUNCH_BLOCKING", "1"}}) {
    make_ranks(2);
    ::setenv(name, value, 1);
    std::vector<cuda::DevicePointer> outs;
    std::vector<std::thread> threads;
    std::atomic<int> announced{0}, back{0};
    for (std::size_t r = 0; r < 2; ++r) {
      outs.push_back(buffer(values_of(r, 5000)));  // many chunks
      threads.emplace_back([&, r, at = outs[r]] {
        ranks_[r].calls->submit({at, at, 5000, DType::float32, DeviceOp::sum}, ranks_[r].stream,
                                [&] { ++announced; });
        ++back;
      });
    }
    while (announced < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that they would be back if they could
    EXPECT_EQ(back, 0) << name;
    agree(1);
    for (std::thread& thread : threads) thread.join();
    synchronize();
    for (cuda::DevicePointer out : outs) EXPECT_EQ(values<float>(out, 5000), sum_of(2, 5000)) << name;
    ::unsetenv(name);
    ranks_.clear();
  }
}

TEST_F(DeviceCallsTest, WhoIsKeptWaitingInACallThatOthersNeverMakeIsLetGo) {
  for (auto [name, value] : {std::pair("FAKE_CUDA_QUEUE", "4"), {"CUDA_LAUNCH_BLOCKING", "1"}}) {
    make_ranks(2);
    ::setenv(name, value, 1);
    cuda::DevicePointer at = buffer(values_of(0, 5000));
    std::atomic<bool> announced{false}, back{false};
    std::thread thread([&] {
      ranks_[0].calls->submit({at, at, 5000, DType::float32, DeviceOp::sum}, ranks_[0].stream,
                              [&] { announced = true; });
      back = true;
    });
    while (!announced) std::this_thread::yield();
    while (!back) ranks_[0].calls->let_go();
    thread.join();
    synchronize();
    EXPECT_EQ(ranks_[0].calls->passed(), 1u) << name;
    ::unsetenv(name);
    ranks_.clear();
  }
}

TEST_F(DeviceCallsTest, TheLegacyStreamIsRefusedWhileAnotherOneThatWaitsForItIsCaptured) {
  make_ranks(2);
  cuda::Graph graph = nullptr;
  cuda::Stream blocking = nullptr;
  cuda::DevicePointer at = buffer(400);
  ok(cuda_.stream_create(&blocking, 0));
  ok(cuda_.begin_capture(blocking, cuda::kCaptureThreadLocal));
  EXPECT_EQ(ranks_[0].calls->submit({at, at, 100, DType::float32, DeviceOp::sum}, nullptr),
            Submitted::kUnusable);
  EXPECT_EQ(ranks_[0].calls->failure(), "") << "it can go on";
  ok(cuda_.end_capture(blocking, &graph));
  cuda_.graph_destroy(graph);
  cuda_.stream_destroy(blocking);
}

TEST_F(DeviceCallsTest, ACapturedStreamIsRefused) {
  make_ranks(2);
  cuda::Graph graph = nullptr;
  cuda::DevicePointer at = buffer(400);
  ok(cuda_.begin_capture(ranks_[0].stream, cuda::kCaptureThreadLocal));
  EXPECT_EQ(ranks_[0].calls->submit({at, at, 100, DType::float32, DeviceOp::sum}, ranks_[0].stream),
            Submitted::kCapturing);
  ok(cuda_.end_capture(ranks_[0].stream, &graph));
  cuda_.graph_destroy(graph);
  EXPECT_EQ(ranks_[0].calls->submitted(), 0u);
}

}  // namespace
}  // namespace ddl
