#include "core/transport/sent_bytes.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

std::vector<std::byte> frame(std::size_t number, std::size_t bytes) {
  std::vector<std::byte> frame(bytes);
  for (std::size_t i = 0; i < bytes; ++i) frame[i] = static_cast<std::byte>(number * 31 + i + i / 256);
  return frame;
}

void add(SentBytes& sent, std::size_t number, std::size_t bytes) {
  const std::vector<std::byte> all = frame(number, bytes);
  sent.add(std::span(all).first(bytes / 3));
  sent.add(std::span(all).subspan(bytes / 3));
  sent.end_frame();
}

}  // namespace

TEST(SentBytes, WhatIsNotAcknowledgedIsKeptInWholeFrames) {
  SentBytes sent;
  EXPECT_TRUE(sent.pop().empty());
  for (std::size_t i = 0; i < 4; ++i) add(sent, i, 1000);
  sent.trim(2001);
  EXPECT_EQ(sent.first_frame(), 1u);
  EXPECT_EQ(sent.bytes(), 3000u);
  sent.trim(2000);
  EXPECT_EQ(sent.frames(), 2u);
  EXPECT_EQ(sent.pop(), frame(2, 1000));
  EXPECT_EQ(sent.first_frame(), 3u);
  sent.trim(0);
  EXPECT_EQ(sent.bytes(), 0u);
  EXPECT_EQ(sent.first_frame(), 4u);
}

// Its place in the ring is anywhere, and the ring becomes larger and smaller meanwhile.
TEST(SentBytes, FramesStayWhatTheyAre) {
  SentBytes sent;
  std::size_t made = 0, kept_most = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::size_t kept = round % 500 < 250 ? 8 : 1;
    for (; sent.frames() < kept; ++made) add(sent, made, 50'000 + made % 7);
    kept_most = std::max<std::size_t>(kept_most, sent.capacity());
    if (round % 3) {
      const std::uint64_t first = sent.first_frame();
      ASSERT_TRUE(sent.pop() == frame(first, 50'000 + first % 7)) << first;
    }
    sent.trim(sent.bytes());
  }
  EXPECT_EQ(kept_most, 512u << 10);
}

TEST(SentBytes, RoomThatIsNotUsedIsGivenBackSlowly) {
  SentBytes sent;
  add(sent, 0, 3 << 20);
  sent.trim(0);
  EXPECT_EQ(sent.capacity(), 4u << 20);
  for (int i = 0; i < 60; ++i) sent.trim(0);
  EXPECT_EQ(sent.capacity(), 4u << 20);
  for (int i = 0; i < 1000; ++i) {
    add(sent, 1, 200'000);
    sent.trim(0);
  }
  EXPECT_EQ(sent.capacity(), 512u << 10);
  add(sent, 1, 600'000);
  EXPECT_EQ(sent.capacity(), 1u << 20);
}

}  // namespace ddl
