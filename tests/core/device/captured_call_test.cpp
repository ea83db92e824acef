#include "core/device/captured_call.hpp"

#include <algorithm>
#include <optional>

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
