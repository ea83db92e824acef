#include "core/device/staged_call.hpp"

#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "tests/core/device/fake_device.hpp"
#include "tests/core/device/staged_doubling.hpp"

namespace ddl {
namespace {

using test::doubled;
using test::Floats;
using test::ramp;
using test::small;
using test::twice;

class StagedCallTest : public test::FakeDevice {
 protected:
  /// A call that doubles `values`: where it writes to.
  cuda::DevicePointer submit_twice(StagedCalls& calls, const Floats& values, cuda::Stream on) {
    cuda::DevicePointer in = buffer(values), out = buffer(bytes(values));
    EXPECT_EQ(calls.submit({in, out, bytes(values)}, on, twice), Submitted::kEnqueued);
    return out;
  }
  static Bytes bytes(const Floats& values) { return values.size() * sizeof(float); }
};

TEST_F(StagedCallTest, TheResultIsThereInStreamOrder) {
  StagedCalls calls(cuda_, context_, small());
  for (std::size_t count : {1, 2, 63, 64, 65, 255, 256, 257, 767, 768, 769, 5000, 100'003}) {
    cuda::Stream on = stream();
    Floats values = ramp(count, 1), result(count);
    cuda::DevicePointer out = submit_twice(calls, values, on);
    ok(cuda_.copy_to_host_async(result.data(), out, bytes(values), on));
    ok(cuda_.stream_synchronize(on));
    EXPECT_EQ(result, doubled(values)) << count;
  }
  EXPECT_EQ(calls.failure(), "");
}

// Each has every third chunk of a call, in the order of the calls, and may be far ahead of the others.
TEST_F(StagedCallTest, SeveralWorkersShareACall) {
  StagedOptions options = small(4);
  options.chunk_bytes = 2048;
  StagedCalls calls(cuda_, context_, options);
  calls.use_workers(3);
  std::mutex mutex;
  std::vector<std::vector<Bytes>> offsets_of(3);
  std::atomic<int> working{0}, most{0};
  auto work = [&](const StagedChunk& chunk) {
    const int now_working = ++working;
    if (int before = most; now_working > before) most.compare_exchange_strong(before, now_working);
    std::this_thread::sleep_for(std::chrono::microseconds(chunk.offset / 64 % 7 * 300));
    {
      std::lock_guard lock(mutex);
      offsets_of.at(chunk.worker).push_back(chunk.offset);
    }
    std::string problem = twice(chunk);
    --working;
    return problem;
  };
  Floats values = ramp(5000, 1);
  cuda::Stream one = stream(), other = stream();
  cuda::DevicePointer at = buffer(values), small_at = buffer(ramp(10, 0));
  ASSERT_EQ(calls.submit({at, at, bytes(values)}, one, work), Submitted::kEnqueued);
  ASSERT_EQ(calls.submit({small_at, small_at, 40}, other, work), Submitted::kEnqueued);
  std::atomic<bool> noted{false};
  calls.post([&] { return noted = true, std::string(); });
  ok(cuda_.stream_synchronize(one));
  ok(cuda_.stream_synchronize(other));
  EXPECT_EQ(this->values<float>(at, 5000), doubled(values));
  EXPECT_EQ(this->values<float>(small_at, 10), doubled(ramp(10, 0)));
  while (!noted) std::this_thread::yield();
  EXPECT_GT(most, 1);
  ASSERT_EQ(offsets_of[0].back(), 0u) << "the small call is the first worker's";
  const Bytes piece = offsets_of[1].at(0);
  for (Bytes worker : {0, 1, 2})
    for (std::size_t i = 0; i + (worker == 0) < offsets_of[worker].size(); ++i)
      EXPECT_EQ(offsets_of[worker][i], (3 * i + worker) * piece);
}

TEST_F(StagedCallTest, OneChunkIsEnough) {
  StagedCalls calls(cuda_, context_, small(1));
  cuda::Stream one = stream(), other = stream();
  Floats values = ramp(3000, 0);
  cuda::DevicePointer first = submit_twice(calls, values, one), second = submit_twice(calls, values, other);
  ok(cuda_.stream_synchronize(one));
  ok(cuda_.stream_synchronize(other));
  EXPECT_EQ(this->values<float>(first, 3000), doubled(values));
  EXPECT_EQ(this->values<float>(second, 3000), doubled(values));
}

TEST_F(StagedCallTest, InPlaceAndOnTheDefaultStream) {
  StagedCalls calls(cuda_, context_, small());
  for (cuda::Stream on : {cuda::Stream{nullptr}, cuda::kStreamLegacy, cuda::kStreamPerThread}) {
    Floats values = ramp(2000, 3);
    cuda::DevicePointer at = buffer(values);
    EXPECT_EQ(calls.submit({at, at, bytes(values)}, on, twice), Submitted::kEnqueued);
    ok(cuda_.stream_synchronize(on));
    EXPECT_EQ(this->values<float>(at, 2000), doubled(values));
  }
}

TEST_F(StagedCallTest, BlocksArePackedPerPieceAndComeBackToTheirPlaces) {
  StagedCalls calls(cuda_, context_, small());
  constexpr std::size_t kBlock = 700, kBlocks = 3;
  // As an all-gather: block b of the output is the input plus b.
  auto gather = [](const StagedChunk& chunk) -> std::string {
    EXPECT_EQ(chunk.in.size(), chunk.bytes);
    EXPECT_EQ(chunk.out.size(), kBlocks * chunk.bytes);
    std::size_t count = chunk.bytes / sizeof(float);
    auto* in = reinterpret_cast<const float*>(chunk.in.data());
    auto* out = reinterpret_cast<float*>(chunk.out.data());
    for (std::size_t b = 0; b < kBlocks; ++b)
      for (std::size_t i = 0; i < count; ++i) out[b * count + i] = in[i] + static_cast<float>(1000 * b);
    return {};
  };
  cuda::Stream on = stream();
  cuda::DevicePointer in = buffer(ramp(kBlock, 0)), out = buffer(kBlocks * kBlock * sizeof(float));
  ASSERT_EQ(calls.submit({in, out, kBlock * sizeof(float), 1, kBlocks}, on, gather), Submitted::kEnqueued);
  ok(cuda_.stream_synchronize(on));
  Floats gathered = values<float>(out, kBlocks * kBlock);
  for (std::size_t b = 0; b < kBlocks; ++b)
    for (std::size_t i = 0; i < kBlock; ++i)
      ASSERT_EQ(gathered[b * kBlock + i], static_cast<float>(i + 1000 * b)) << b << " " << i;
}

TEST_F(StagedCallTest, ChunksAreEqualWhereverTheMostBlocksAreEqual) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  cuda::DevicePointer in = buffer(4096), out = buffer(4 * 4096);
  std::mutex mutex;
  std::vector<Bytes> root, leaf;
  auto note = [&](std::vector<Bytes>& into) {
    return [&](const StagedChunk& chunk) -> std::string {
      std::lock_guard lock(mutex);
      into.push_back(chunk.offset);
      return {};
    };
  };
  calls.submit({in, out, 4096, 1, 4}, on, note(root));
  calls.submit({in, 0, 4096, 1, 0, 4}, on, note(leaf));  // the same gather on a rank that receives nothing
  ok(cuda_.stream_synchronize(on));
  EXPECT_GT(root.size(), 1u);
  EXPECT_EQ(root, leaf);
}

TEST_F(StagedCallTest, TheCallerReturnsWhileItsStreamIsHeldUp) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  Floats values = ramp(10'000, 1);
  Obstacle obstacle(on);
  cuda::DevicePointer out = submit_twice(calls, values, on);  // many times more than the pinned chunks hold
  EXPECT_EQ(cuda_.stream_query(on), cuda::kNotReady);
  obstacle.remove();
  ok(cuda_.stream_synchronize(on));
  EXPECT_EQ(this->values<float>(out, values.size()), doubled(values));
}

TEST_F(StagedCallTest, ManyCallsOnSeveralStreamsAreDoneInTheOrderOfSubmission) {
  for (FlagOrdering ordering : {FlagOrdering::kStreamMemoryOperations, FlagOrdering::kHostFunctions}) {
    StagedCalls calls(cuda_, context_, small(3, ordering));
    std::vector<cuda::Stream> on = {stream(), stream(), stream(0), stream()};
    std::vector<int> order;  // by the worker alone
    std::vector<cuda::DevicePointer> outs;
    constexpr int kCalls = 60;
    Obstacle obstacle(on[0]);
    for (int i = 0; i < kCalls; ++i) {
      Floats values = ramp(1 + static_cast<std::size_t>(i * 37 % 1500), static_cast<float>(i));
      outs.push_back(buffer(bytes(values)));
      auto work = [&order, i](const StagedChunk& chunk) {
        if (chunk.offset == 0) order.push_back(i);
        return twice(chunk);
      };
      ASSERT_EQ(calls.submit({buffer(values), outs.back(), bytes(values)},
                             on[static_cast<std::size_t>(i) % 4], work),
                Submitted::kEnqueued);
    }
    obstacle.remove();
    for (cuda::Stream each : on) ok(cuda_.stream_synchronize(each));
    for (int i = 0; i < kCalls; ++i) {
      std::size_t count = 1 + static_cast<std::size_t>(i * 37 % 1500);
      EXPECT_EQ(values<float>(outs[static_cast<std::size_t>(i)], count),
                doubled(ramp(count, static_cast<float>(i))));
    }
    std::vector<int> expected(kCalls);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
  }
}

// The last call is the first whose stream gets to wait, for a work that comes after that of the others.
TEST_F(StagedCallTest, ACallMayBeReadyBeforeThoseThatWereSubmittedEarlier) {
  for (FlagOrdering ordering : {FlagOrdering::kStreamMemoryOperations, FlagOrdering::kHostFunctions}) {
    StagedCalls calls(cuda_, context_, small(3, ordering));
    const std::vector<cuda::Stream> on = {stream(), stream()};
    const Floats values_of_each = ramp(10, 1);
    std::vector<cuda::DevicePointer> outs;
    Obstacle obstacle(on[0]);
    for (std::size_t which : {0, 0, 1}) outs.push_back(submit_twice(calls, values_of_each, on[which]));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    obstacle.remove();
    for (cuda::Stream each : on) ok(cuda_.stream_synchronize(each));
    for (cuda::DevicePointer out : outs) EXPECT_EQ(values<float>(out, 10), doubled(values_of_each));
  }
}

TEST_F(StagedCallTest, SeveralThreadsMaySubmit) {
  StagedCalls calls(cuda_, context_, small());
  std::vector<cuda::Stream> on = {stream(), stream(), stream()};
  std::vector<std::vector<cuda::DevicePointer>> at(3);
  for (auto& each : at)
    for (int i = 0; i < 20; ++i) each.push_back(buffer(ramp(600, 1)));
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {  // no context is current here: the calls bring theirs
      for (cuda::DevicePointer each : at[t])
        EXPECT_EQ(calls.submit({each, each, 2400}, on[t], twice), Submitted::kEnqueued);
    });
  for (std::thread& thread : threads) thread.join();
  for (cuda::Stream each : on) ok(cuda_.stream_synchronize(each));
  for (auto& each : at)
    for (cuda::DevicePointer one : each) EXPECT_EQ(values<float>(one, 600), doubled(ramp(600, 1)));
}

TEST_F(StagedCallTest, CopiesOfTheNextChunkGoOnWhileOneIsWorkedOn) {
  StagedOptions options = small(2);
  options.first_ticket = 2;  // the first chunk comes first in pinned memory
  StagedCalls calls(cuda_, context_, options);
  bool seen = false;  // the worker's
  auto work = [&](const StagedChunk& chunk) {
    // The flag "ready" of the second chunk is half of the two chunks' flags before the first area.
    auto* ready = reinterpret_cast<const std::uint32_t*>(chunk.in.data() - 128);
    for (Nanoseconds end = now() + 20'000'000'000; chunk.offset == 0 && !seen && now() < end; sched_yield())
      seen = __atomic_load_n(ready, __ATOMIC_ACQUIRE) == 3;
    return twice(chunk);
  };
  cuda::Stream on = stream();
  Floats values = ramp(512, 1);
  cuda::DevicePointer at = buffer(values);
  ASSERT_EQ(calls.submit({at, at, bytes(values)}, on, work), Submitted::kEnqueued);
  ok(cuda_.stream_synchronize(on));
  EXPECT_TRUE(seen);
  EXPECT_EQ(this->values<float>(at, 512), doubled(values));
}

TEST_F(StagedCallTest, FlagsSurviveTheirWrap) {
  for (std::uint32_t chunks : {1u, 2u, 3u, 7u}) {
    StagedOptions options = small(chunks);
    options.first_ticket = (std::uint64_t{1} << 32) - 5;
    StagedCalls calls(cuda_, context_, options);
    cuda::Stream on[] = {stream(), stream()};
    for (int i = 0; i < 6; ++i) {
      Floats values = ramp(800, static_cast<float>(i));
      cuda::DevicePointer out = submit_twice(calls, values, on[i % 2]);
      ok(cuda_.stream_synchronize(on[i % 2]));
      EXPECT_EQ(this->values<float>(out, 800), doubled(values));
    }
  }
}

TEST_F(StagedCallTest, NothingToDoIsDone) {
  StagedCalls calls(cuda_, context_, small());
  unsigned long before = calls_of("cuStreamWriteValue32");
  EXPECT_EQ(calls.submit({0, 0, 0}, stream(), twice), Submitted::kEnqueued);
  EXPECT_EQ(calls_of("cuStreamWriteValue32"), before);
}

// ---- what can go wrong ----

TEST_F(StagedCallTest, AFailureOfTheWorkIsKeptAndNoStreamHangs) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream one = stream(), other = stream();
  int ran = 0;
  auto work = [&](const StagedChunk& chunk) {
    ++ran;
    return chunk.offset == 1024 ? std::string("rank 3 is gone") : std::string();
  };
  cuda::DevicePointer at = buffer(8192);
  ASSERT_EQ(calls.submit({at, at, 8192}, one, work), Submitted::kEnqueued);
  Submitted second = calls.submit({at, at, 8192}, other, work);
  EXPECT_TRUE(second == Submitted::kEnqueued || second == Submitted::kFailed);
  ok(cuda_.stream_synchronize(one));
  ok(cuda_.stream_synchronize(other));
  EXPECT_EQ(calls.failure(), "rank 3 is gone");
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(calls.submit({at, at, 8192}, one, work), Submitted::kFailed);
}

TEST_F(StagedCallTest, AnExceptionOfTheWorkIsAFailure) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  cuda::DevicePointer at = buffer(8);
  calls.submit({at, at, 8}, on, [](const StagedChunk&) -> std::string { throw Error("no memory"); });
  ok(cuda_.stream_synchronize(on));
  EXPECT_EQ(calls.failure(), "no memory");
}

TEST_F(StagedCallTest, EveryCallThatTheDriverMayRefuseLeavesNoStreamHanging) {
  for (const char* function :
       {"cuCtxPushCurrent", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamWriteValue32",
        "cuStreamWaitValue32", "cuStreamWaitEvent", "cuEventRecord"})
    for (int nth : {1, 2, 4, 6}) {
      StagedCalls calls(cuda_, context_, small());
      cuda::Stream one = stream(), other = stream();
      cuda::DevicePointer at = buffer(16384), behind = buffer(16384);
      fail(function, nth, cuda::kOutOfMemory);
      for (int i = 0; i < 4; ++i) {
        calls.submit({at, at, 8192}, one, twice);
        calls.submit({behind, behind, 8192}, other, twice);
      }
      fail("", 0, 0);
      ok(cuda_.stream_synchronize(one));
      ok(cuda_.stream_synchronize(other));
      EXPECT_NE(calls.failure().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos)
          << function << " " << nth;
    }
}

TEST_F(StagedCallTest, AbortLetsAStreamGoThatWaitsForWorkThatNeverEnds) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  std::atomic<bool> interrupted{false};
  cuda::DevicePointer at = buffer(16384);
  calls.submit({at, at, 16384}, on, [&](const StagedChunk&) {
    while (!interrupted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::string("interrupted");
  });
  EXPECT_EQ(cuda_.stream_query(on), cuda::kNotReady);
  calls.abort("the program said so");
  interrupted = true;
  ok(cuda_.stream_synchronize(on));
  EXPECT_EQ(calls.failure(), "the program said so");
}

TEST_F(StagedCallTest, ShutDownLeavesWhatAHeldUpStreamMayStillUse) {
  for (const char* refused : {"", "cuMemcpyDtoHAsync", "cuStreamWaitValue32"}) {  // or an abort alone
    StagedOptions options = small();
    options.patience = 1'000'000;
    auto calls = std::make_unique<StagedCalls>(cuda_, context_, options);
    cuda::Stream on = stream();
    cuda::DevicePointer at = buffer(16384);
    Obstacle obstacle(on);
    fail(refused, *refused ? 2 : 0, cuda::kOutOfMemory);
    EXPECT_EQ(calls->submit({at, at, 16384}, on, twice),
              *refused ? Submitted::kFailed : Submitted::kEnqueued);
    calls->abort("the program said so");
    ::testing::internal::CaptureStderr();
    calls.reset();
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("a stream does not come to an end"),
              std::string::npos);
    obstacle.remove();
    ok(cuda_.stream_synchronize(on));  // into memory that is still there
  }
}

TEST_F(StagedCallTest, ShutDownWaitsForWhatWasSubmitted) {
  cuda::Stream on = stream();
  Floats values = ramp(5000, 1);
  cuda::DevicePointer out = 0;
  {
    StagedCalls calls(cuda_, context_, small());
    out = submit_twice(calls, values, on);
  }
  ok(cuda_.stream_synchronize(on));
  EXPECT_EQ(this->values<float>(out, 5000), doubled(values));
}

// It would never be done, were that the stream of a rank that waits for the one that shuts down.
TEST_F(StagedCallTest, ShutDownWaitsForNoOtherStream) {
  cuda::Stream on = stream(), other = stream();
  Obstacle obstacle(other);
  {
    StagedCalls calls(cuda_, context_, small());
    submit_twice(calls, ramp(5000, 1), on);
  }
  EXPECT_EQ(cuda_.stream_query(other), cuda::kNotReady);
}

TEST_F(StagedCallTest, ACapturingStreamIsLeftAlone) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  cuda::DevicePointer at = buffer(8);
  ok(cuda_.begin_capture(on, cuda::kCaptureThreadLocal));
  EXPECT_EQ(calls.submit({at, at, 8}, on, twice), Submitted::kCapturing);
  cuda::Graph graph = nullptr;
  ok(cuda_.end_capture(on, &graph));
  ok(cuda_.graph_destroy(graph));
  EXPECT_EQ(calls.failure(), "");
  EXPECT_EQ(calls.submit({at, at, 8}, on, twice), Submitted::kEnqueued);
  ok(cuda_.stream_synchronize(on));
}

TEST_F(StagedCallTest, MoreBlocksThanThereIsRoomForAreRefused) {
  StagedCalls calls(cuda_, context_, small());
  cuda::DevicePointer at = buffer(9 * 256);
  EXPECT_EQ(calls.submit({at, at, 256, 9, 1}, stream(), twice), Submitted::kFailed);
  EXPECT_EQ(calls.failure(), "a call of 9 blocks, where room was made for 4");
}

TEST_F(StagedCallTest, WithoutPinnedMemoryThereIsOneClearError) {
  StagedOptions options = small();
  options.chunk_bytes = 123 * 1024;  // of a size that nothing has pinned before
  for (const char* function : {"cuMemHostAlloc", "cuEventCreate"}) {
    fail(function, 1, cuda::kOutOfMemory);
    try {
      StagedCalls calls(cuda_, context_, options);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ddl
