#include "core/device/captured_call.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "tests/core/device/fake_device.hpp"

namespace ddl {
namespace {

using Bytes8 = std::vector<std::uint8_t>;

// The work of these tests: every byte plus one, into all blocks of the output.
std::string add_one(const StagedChunk& chunk) {
  for (std::size_t at = 0; at < chunk.out.size(); ++at)
    chunk.out[at] = std::byte(std::to_integer<int>(chunk.in[at % chunk.in.size()]) + 1);
  return {};
}

class CapturedCallTest : public test::FakeDevice {
 protected:
  // What `capture` puts on a capturing stream, ready to be launched.
  template <class Capture>
  cuda::Graph graph_of(Capture capture) {
    cuda::Graph graph = nullptr, executable = nullptr;
    ok(cuda_.begin_capture(on_, cuda::kCaptureThreadLocal));
    capture();
    ok(cuda_.end_capture(on_, &graph));
    ok(control<cuda::Result (*)(cuda::Graph*, cuda::Graph, unsigned long long)>(
        "cuGraphInstantiateWithFlags")(&executable, graph, 0));
    cuda_.graph_destroy(graph);
    return executable;
  }
  void launch(cuda::Graph graph) {
    ok(control<cuda::Result (*)(cuda::Graph, cuda::Stream)>("cuGraphLaunch")(graph, on_));
    ok(cuda_.stream_synchronize(on_));
  }

  cuda::Stream on_ = stream();
  std::optional<CapturedCalls> calls_{std::in_place, cuda_, context_};
};

TEST_F(CapturedCallTest, TheWorkIsDoneAtEveryLaunchAndNotBefore) {
  for (std::size_t bytes : {1u, 300u, 9'000'001u}) {  // one chunk, and several
    cuda::DevicePointer at = buffer(Bytes8(bytes, 7));
    cuda::Graph graph = graph_of([&] {
      ASSERT_EQ(calls_->capture({at, at, bytes}, on_, add_one), Submitted::kEnqueued);
    });
    EXPECT_EQ(values<std::uint8_t>(at, bytes), Bytes8(bytes, 7));
    for (std::uint8_t right : {8, 9}) {
      launch(graph);
      EXPECT_EQ(values<std::uint8_t>(at, bytes), Bytes8(bytes, right));
    }
  }
}

TEST_F(CapturedCallTest, BlocksArePackedInEveryChunk) {
  const std::size_t block = 3'000'000;
  cuda::DevicePointer in = buffer(Bytes8(block, 1)), out = buffer(3 * block);
  cuda::Graph graph = graph_of([&] {
    ASSERT_EQ(calls_->capture({in, out, block, 1, 3, 3}, on_, add_one), Submitted::kEnqueued);
  });
  launch(graph);
  EXPECT_EQ(values<std::uint8_t>(out, 3 * block), Bytes8(3 * block, 2));
}

TEST_F(CapturedCallTest, AfterAFailureOrTheEndLaunchesDoNothing) {
  int worked = 0;
  cuda::DevicePointer at = buffer(Bytes8(10, 1));
  auto failing = [&worked](const StagedChunk&) { return ++worked, std::string("no"); };
  cuda::Graph graph = graph_of([&] {
    ASSERT_EQ(calls_->capture({at, at, 10}, on_, failing), Submitted::kEnqueued);
  });
  for (int i = 0; i < 2; ++i) launch(graph);
  EXPECT_EQ(worked, 1);
  calls_.emplace(cuda_, context_);
  graph = graph_of([&] { ASSERT_EQ(calls_->capture({at, at, 10}, on_, failing), Submitted::kEnqueued); });
  calls_.reset();
  launch(graph);
  EXPECT_EQ(worked, 1);
}

// All pieces of a call that has begun are worked on, also when its communicator ends meanwhile.
TEST_F(CapturedCallTest, TheEndWaitsForACallThatHasBegun) {
  const std::size_t bytes = 9'000'001;
  std::atomic<bool> begun{false}, ended{false};
  cuda::DevicePointer at = buffer(Bytes8(bytes, 1));
  auto slow = [&](const StagedChunk& chunk) {
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(ended);
    return add_one(chunk);
  };
  cuda::Graph graph = graph_of([&] {
    ASSERT_EQ(calls_->capture({at, at, bytes}, on_, slow), Submitted::kEnqueued);
  });
  ok(control<cuda::Result (*)(cuda::Graph, cuda::Stream)>("cuGraphLaunch")(graph, on_));
  while (!begun) std::this_thread::yield();
  calls_.reset();
  ended = true;
  ok(cuda_.stream_synchronize(on_));
  EXPECT_EQ(values<std::uint8_t>(at, bytes), Bytes8(bytes, 2));
}

TEST_F(CapturedCallTest, ACallIsCapturedWhileAnotherIsReplayed) {
  std::atomic<bool> begun{false}, go{false};
  cuda::DevicePointer at = buffer(Bytes8(10, 1));
  auto held = [&](const StagedChunk&) {
    for (begun = true; !go;) std::this_thread::yield();
    return std::string();
  };
  cuda::Graph graph = graph_of([&] {
    ASSERT_EQ(calls_->capture({at, at, 10}, on_, held), Submitted::kEnqueued);
  });
  cuda::Stream other = stream();
  ok(control<cuda::Result (*)(cuda::Graph, cuda::Stream)>("cuGraphLaunch")(graph, other));
  while (!begun) std::this_thread::yield();
  graph_of([&] { EXPECT_EQ(calls_->capture({at, at, 10}, on_, add_one), Submitted::kEnqueued); });
  go = true;
  ok(cuda_.stream_synchronize(other));
}

// Of a process with two GPUs, whose communicators are captured into one graph.
TEST_F(CapturedCallTest, CallsOfTwoContextsFollowEachOtherInOneCapture) {
  cuda::Context second = nullptr;
  cuda::Event fork = nullptr, join = nullptr;
  cuda::DevicePointer at = buffer(Bytes8(10, 1));
  ok(cuda_.event_create(&fork, cuda::kEventNoTiming));
  ok(cuda_.primary_retain(&second, 1));
  ok(cuda_.context_set(second));
  cuda::Stream beside = stream();
  cuda::DevicePointer there = buffer(Bytes8(10, 3));
  ok(cuda_.event_create(&join, cuda::kEventNoTiming));
  ok(cuda_.context_set(context_));
  CapturedCalls others(cuda_, second);
  std::vector<int> order;
  auto noted = [&](int number) {
    return [&order, number](const StagedChunk& chunk) { return order.push_back(number), add_one(chunk); };
  };
  cuda::Graph graph = graph_of([&] {
    ok(cuda_.event_record(fork, on_));
    ok(cuda_.stream_wait_event(beside, fork, 0));
    EXPECT_EQ(calls_->capture({at, at, 10}, on_, noted(1)), Submitted::kEnqueued) << calls_->failure();
    EXPECT_EQ(others.capture({there, there, 10}, beside, noted(2)), Submitted::kEnqueued) << others.failure();
    EXPECT_EQ(calls_->capture({at, at, 10}, on_, noted(3)), Submitted::kEnqueued) << calls_->failure();
    ok(cuda_.event_record(join, beside));
    ok(cuda_.stream_wait_event(on_, join, 0));
  });
  launch(graph);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(values<std::uint8_t>(at, 10), Bytes8(10, 3));
  EXPECT_EQ(values<std::uint8_t>(there, 10), Bytes8(10, 4));
  ok(cuda_.event_destroy(fork));
  ok(cuda_.event_destroy(join));
}

TEST_F(CapturedCallTest, WhatCudaRefusesIsSaid) {
  cuda::DevicePointer at = buffer(10);
  for (const char* function :
       {"cuMemHostAlloc", "cuMemcpyDtoHAsync", "cuLaunchHostFunc", "cuMemcpyHtoDAsync"}) {
    calls_.emplace(cuda_, context_);
    const std::size_t bytes = function == std::string("cuMemHostAlloc") ? 1'000'000 : 10;  // none in the pool
    graph_of([&] {
      fail(function, 1, cuda::kOutOfMemory);
      EXPECT_EQ(calls_->capture({at, at, bytes}, on_, add_one), Submitted::kFailed) << function;
    });
    EXPECT_NE(calls_->failure().find("in a graph: CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << function;
  }
}

}  // namespace
}  // namespace ddl
