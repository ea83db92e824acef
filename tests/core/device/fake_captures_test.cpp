// What the test double makes of streams that are captured: as strict as a driver.
#include <gtest/gtest.h>

#include <string>

#include "tests/core/device/fake_device.hpp"
#include "tests/support/fake_cuda/streams.hpp"

namespace ddl::cuda {
namespace {

class FakeCaptures : public test::FakeDevice {
 protected:
  ~FakeCaptures() override {
    for (Event event : events_) cuda_.event_destroy(event);
  }
  Event event() {
    Event made = nullptr;
    ok(cuda_.event_create(&made, kEventNoTiming));
    return events_.emplace_back(made);
  }
  void let_wait(Stream later, Stream earlier) {
    Event between = event();
    ok(cuda_.event_record(between, earlier));
    ok(cuda_.stream_wait_event(later, between, 0));
  }
  int status_of(Stream stream) {
    int status = kCaptureNone;
    ok(cuda_.stream_is_capturing(stream, &status));
    return status;
  }
  /// Adds a letter to said_, when it is done.
  template <char letter>
  void say(Stream stream) {
    ok(cuda_.launch_host_function(
        stream, [](void* said) { *static_cast<std::string*>(said) += letter; }, &said_));
  }
  void replay(Graph graph, Stream stream) {
    Graph executable = nullptr;
    ok(control<Result (*)(Graph*, Graph, unsigned long long)>("cuGraphInstantiateWithFlags")(&executable,
                                                                                             graph, 0));
    ok(control<Result (*)(Graph, Stream)>("cuGraphLaunch")(executable, stream));
    ok(cuda_.stream_synchronize(stream));
    ok(control<Result (*)(Graph)>("cuGraphExecDestroy")(executable));
  }

  std::vector<Event> events_;
  std::string said_;
};

TEST_F(FakeCaptures, ACapturingStreamExecutesNothingUntilItsGraphIsLaunched) {
  Stream capturing = stream();
  ok(cuda_.begin_capture(capturing, kCaptureThreadLocal));
  EXPECT_EQ(status_of(capturing), kCaptureActive);
  say<'a'>(capturing);
  say<'b'>(capturing);
  Graph graph = nullptr;
  ok(cuda_.end_capture(capturing, &graph));
  EXPECT_EQ(status_of(capturing), kCaptureNone);
  ok(cuda_.stream_synchronize(capturing));
  EXPECT_EQ(said_, "");
  replay(graph, capturing);
  replay(graph, capturing);
  EXPECT_EQ(said_, "abab");
  ok(cuda_.graph_destroy(graph));
}

TEST_F(FakeCaptures, StreamsJoinByEventsAndAreInOrderByEventsAlone) {
  Stream first = stream(), second = stream(), third = stream();
  ok(cuda_.begin_capture(first, fake_cuda::kCaptureGlobal));
  say<'a'>(first);
  let_wait(second, first);
  let_wait(third, first);
  EXPECT_EQ(status_of(second), kCaptureActive);
  say<'b'>(second);
  say<'c'>(third);
  let_wait(first, second);
  let_wait(first, third);
  say<'d'>(first);
  Graph graph = nullptr;
  ok(cuda_.end_capture(first, &graph));
  EXPECT_EQ(status_of(second), kCaptureNone);
  replay(graph, first);
  EXPECT_TRUE(said_ == "abcd" || said_ == "acbd") << said_;
  ok(cuda_.graph_destroy(graph));
}

TEST_F(FakeCaptures, WhatTheFirstStreamHasNotWaitedForIsRefused) {
  Stream first = stream(), second = stream();
  Graph graph = nullptr;
  ok(cuda_.begin_capture(first, kCaptureThreadLocal));
  let_wait(second, first);
  say<'a'>(second);
  EXPECT_EQ(cuda_.end_capture(first, &graph), fake_cuda::kCaptureUnjoined);
  EXPECT_EQ(status_of(second), kCaptureNone);
}

TEST_F(FakeCaptures, WhatIsOutsideCannotBeWaitedForInside) {
  Stream capturing = stream(), other = stream();
  Event outside = event(), inside = event();
  Graph graph = nullptr;
  ok(cuda_.event_record(outside, other));
  ok(cuda_.begin_capture(capturing, kCaptureThreadLocal));
  EXPECT_EQ(cuda_.stream_wait_event(capturing, outside, 0), fake_cuda::kCaptureIsolation);
  EXPECT_EQ(cuda_.end_capture(capturing, &graph), fake_cuda::kCaptureInvalid);
  EXPECT_EQ(graph, nullptr);
  ok(cuda_.begin_capture(capturing, kCaptureThreadLocal));
  ok(cuda_.event_record(inside, capturing));
  ok(cuda_.end_capture(capturing, &graph));
  EXPECT_NE(cuda_.stream_wait_event(other, inside, 0), kSuccess);
  ok(cuda_.graph_destroy(graph));
}

TEST_F(FakeCaptures, WhatIsUnsafeInvalidatesCapturesButForRelaxedThreads) {
  for (int mode : {int{fake_cuda::kCaptureGlobal}, kCaptureThreadLocal, kCaptureRelaxed}) {
    for (bool relaxed : {false, true}) {
      for (bool own : {false, true}) {
        Stream capturing = stream(), other = stream();
        Graph graph = nullptr;
        ok(cuda_.begin_capture(capturing, mode));
        Result result = kSuccess;
        auto unsafe = [&] {
          int mine = relaxed ? kCaptureRelaxed : int{fake_cuda::kCaptureGlobal};
          ok(cuda_.exchange_capture_mode(&mine));
          ok(cuda_.context_set(context_));
          result = cuda_.stream_synchronize(other);
          ok(cuda_.exchange_capture_mode(&mine));
        };
        own ? unsafe() : std::thread(unsafe).join();
        const bool refused =
            !relaxed && mode != kCaptureRelaxed && (own || mode == fake_cuda::kCaptureGlobal);
        EXPECT_EQ(result, refused ? kCaptureUnsupported : kSuccess) << mode << relaxed << own;
        EXPECT_EQ(cuda_.end_capture(capturing, &graph), refused ? fake_cuda::kCaptureInvalid : kSuccess);
        if (graph) ok(cuda_.graph_destroy(graph));
      }
    }
  }
}

TEST_F(FakeCaptures, InAContextOfOursOtherThreadsCapturesAreSafe) {
  int mode = kCaptureThreadLocal;
  ok(cuda_.exchange_capture_mode(&mode));  // the program's choice
  {
    CurrentContext current(cuda_, context_);
    int inside = kCaptureRelaxed;
    ok(cuda_.exchange_capture_mode(&inside));
    EXPECT_EQ(inside, kCaptureRelaxed);
  }
  ok(cuda_.exchange_capture_mode(&mode));
  EXPECT_EQ(mode, kCaptureThreadLocal);
}

}  // namespace
}  // namespace ddl::cuda
