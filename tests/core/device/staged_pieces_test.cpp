// Staged calls whose block is made of pieces of device memory, and that several streams wait for.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/device/staged_call.hpp"
#include "tests/core/device/fake_device.hpp"
#include "tests/core/device/staged_doubling.hpp"

namespace ddl {
namespace {

using test::doubled;
using test::Floats;
using test::ramp;
using test::small;
using test::twice;

class StagedPiecesTest : public test::FakeDevice {
 protected:
  // Pieces of one buffer and of another; every other piece in place.
  struct Made {
    std::vector<StagedPiece> pieces;
    std::vector<Floats> values;
    cuda::DevicePointer in = 0, out = 0;
    std::size_t floats = 0;
  };

  /// Pieces of so many floats, each with room for a multiple of `line`.
  Made make(const std::vector<std::size_t>& counts, std::size_t line = 1) {
    Made made;
    Floats all;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      made.values.push_back(ramp(counts[i], static_cast<float>(1000 * i)));
      all.insert(all.end(), made.values[i].begin(), made.values[i].end());
    }
    made.floats = all.size();
    made.in = buffer(all);
    made.out = buffer(all.size() * sizeof(float));
    Bytes at = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Bytes bytes = counts[i] * sizeof(float);
      made.pieces.push_back({made.in + at, (i % 2 ? made.in : made.out) + at, bytes,
                             (counts[i] + line - 1) / line * line * sizeof(float)});
      at += bytes;
    }
    return made;
  }
  static StagedBuffers buffers_of(const Made& made) {
    StagedBuffers buffers;
    for (const StagedPiece& piece : made.pieces) buffers.block_bytes += piece.room;
    buffers.pieces = made.pieces;
    return buffers;
  }
  void expect_doubled(const Made& made) {
    const Floats in = values<float>(made.in, made.floats), out = values<float>(made.out, made.floats);
    std::size_t at = 0;
    for (std::size_t i = 0; i < made.values.size(); ++i) {
      const Floats expected = doubled(made.values[i]);
      const Floats& where = i % 2 ? in : out;
      EXPECT_TRUE(
          std::equal(expected.begin(), expected.end(), where.begin() + static_cast<std::ptrdiff_t>(at)))
          << i;
      at += expected.size();
    }
  }
};

// Chunks are of 256 floats: pieces that fill one, that cross one and several, and many in one.
TEST_F(StagedPiecesTest, ChunksEndWhereverTheyDoInPieces) {
  const std::vector<std::vector<std::size_t>> cases = {{1},
                                                       {1, 2, 3},
                                                       {256, 256},
                                                       {255, 1, 256, 1},
                                                       {100, 1000, 7},
                                                       {2000, 1},
                                                       {1, 2000},
                                                       std::vector<std::size_t>(300, 5)};
  for (std::uint32_t chunks : {1u, 3u}) {
    StagedCalls calls(cuda_, context_, small(chunks));
    for (const std::vector<std::size_t>& counts : cases) {
      const Made made = make(counts);
      cuda::Stream on = stream();
      EXPECT_EQ(calls.submit(buffers_of(made), on, twice), Submitted::kEnqueued);
      ok(cuda_.stream_synchronize(on));
      expect_doubled(made);
    }
  }
}

TEST_F(StagedPiecesTest, TheWorkSeesThemOneBehindTheOtherAndZerosBetween) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  // What was in pinned memory before must not show.
  const cuda::DevicePointer junk = buffer(Floats(3 * 256, 7));
  EXPECT_EQ(calls.submit({junk, junk, 3 * 1024}, on, twice), Submitted::kEnqueued);
  const std::vector<std::size_t> counts = {1, 16, 17, 250, 3, 300};
  const Made made = make(counts, 16);
  Floats seen;  // by the worker alone
  EXPECT_EQ(calls.submit(buffers_of(made), on,
                         [&seen](const StagedChunk& chunk) {
                           auto* in = reinterpret_cast<const float*>(chunk.in.data());
                           EXPECT_EQ(chunk.offset, seen.size() * sizeof(float));
                           seen.insert(seen.end(), in, in + chunk.bytes / sizeof(float));
                           return twice(chunk);
                         }),
            Submitted::kEnqueued);
  ok(cuda_.stream_synchronize(on));
  Floats expected;
  for (const Floats& one : made.values) {
    expected.insert(expected.end(), one.begin(), one.end());
    expected.resize((expected.size() + 15) / 16 * 16);
  }
  EXPECT_EQ(seen, expected);
  expect_doubled(made);
}

TEST_F(StagedPiecesTest, TheyAreNotLookedAtAfterwards) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  Obstacle obstacle(on);
  Made made = make({300, 300, 300, 300}, 64);
  EXPECT_EQ(calls.submit(buffers_of(made), on, twice), Submitted::kEnqueued);
  const Made kept = made;
  made.pieces.assign(made.pieces.size(), {});
  obstacle.remove();
  ok(cuda_.stream_synchronize(on));
  expect_doubled(kept);
}

TEST_F(StagedPiecesTest, TheCallBeginsWhenAllItsStreamsHaveComeToIt) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  const std::vector<cuda::Stream> along = {stream(), stream()};
  for (cuda::Stream late : along) {
    const Made made = make({10, 600});
    const Floats before = made.values[1], after = ramp(600, -5000);
    StagedBuffers buffers = buffers_of(made);
    buffers.along = along;
    Obstacle obstacle(late);
    ok(cuda_.copy_to_device_async(made.pieces[1].in, after.data(), 600 * sizeof(float), late));
    EXPECT_EQ(calls.submit(buffers, on, twice), Submitted::kEnqueued);
    EXPECT_EQ(cuda_.stream_query(on), cuda::kNotReady);
    obstacle.remove();
    ok(cuda_.stream_synchronize(on));
    EXPECT_EQ(values<float>(made.pieces[1].out, 600), doubled(after));
  }
}

TEST_F(StagedPiecesTest, AllItsStreamsWaitForItsEnd) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  const std::vector<cuda::Stream> along = {stream(), stream()};
  const Made made = make({10, 600});
  StagedBuffers buffers = buffers_of(made);
  buffers.along = along;
  Obstacle obstacle(on);
  EXPECT_EQ(calls.submit(buffers, on, twice), Submitted::kEnqueued);
  Floats copied(600);
  ok(cuda_.copy_to_host_async(copied.data(), made.pieces[1].out, 600 * sizeof(float), along[1]));
  for (cuda::Stream other : along) EXPECT_EQ(cuda_.stream_query(other), cuda::kNotReady);
  obstacle.remove();
  for (cuda::Stream other : along) ok(cuda_.stream_synchronize(other));
  EXPECT_EQ(copied, doubled(made.values[1]));
}

TEST_F(StagedPiecesTest, OneCapturedStreamAmongThemLeavesAllAlone) {
  StagedCalls calls(cuda_, context_, small());
  cuda::Stream on = stream();
  const std::vector<cuda::Stream> along = {stream()};
  const Made made = make({10, 20});
  StagedBuffers buffers = buffers_of(made);
  buffers.along = along;
  ok(cuda_.begin_capture(along[0], cuda::kCaptureThreadLocal));
  EXPECT_EQ(calls.submit(buffers, on, twice), Submitted::kCapturing);
  cuda::Graph graph = nullptr;
  ok(cuda_.end_capture(along[0], &graph));
  ok(cuda_.graph_destroy(graph));
  EXPECT_EQ(calls.submit(buffers, on, twice), Submitted::kEnqueued);
  ok(cuda_.stream_synchronize(on));
  expect_doubled(made);
}

TEST_F(StagedPiecesTest, EveryCallThatTheDriverMayRefuseLeavesNoStreamHanging) {
  for (const char* function :
       {"cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamWaitEvent", "cuEventRecord"})
    for (int nth : {1, 2, 5}) {
      StagedCalls calls(cuda_, context_, small());
      cuda::Stream on = stream();
      const std::vector<cuda::Stream> along = {stream()};
      const Made made = make({100, 1000});
      StagedBuffers buffers = buffers_of(made);
      buffers.along = along;
      fail(function, nth, cuda::kOutOfMemory);
      for (int i = 0; i < 4; ++i) calls.submit(buffers, on, twice);
      fail("", 0, 0);
      ok(cuda_.stream_synchronize(on));
      ok(cuda_.stream_synchronize(along[0]));
      EXPECT_NE(calls.failure().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos)
          << function << " " << nth;
    }
}

}  // namespace
}  // namespace ddl
