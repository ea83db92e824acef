// One connection for both directions, and what the kernel is spared by it.
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "core/base/clock.hpp"
#include "core/transport/tcp_stream.hpp"
#include "tests/support/tcp_liar.hpp"
#include "tests/support/tcp_pair.hpp"

namespace ddl {

namespace {

using test::Copied;
using test::kPatience;
using test::pattern;
using test::send;
using test::TcpPair;

// Packets that came on a connection.
std::uint32_t packets_in(const Socket& socket) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  EXPECT_EQ(::getsockopt(socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
  return info.tcpi_segs_in;
}

// Moves one side alone, until it is so.
template <class So>
void move_until(TcpTransport& one, Copied& at_one, So so) {
  for (Nanoseconds end = now() + kPatience; now() < end && !so();) one.progress(at_one);
}

// Rank 1, by hand, connected to a real rank 0.
struct Talk {
  test::TcpLiar liar{2};
  Copied at_0;
  Socket socket = liar.connect();
  std::uint32_t unfinished = 0;

  Talk() {
    const Hello hello = liar.hello(1);
    liar.write(socket, std::as_bytes(std::span(&hello, 1)));
    say();
  }
  void move() { liar.honest().progress(at_0); }
  // One message of no bytes, until it has come.
  void say() {
    Header header{};
    header.from = 1;
    liar.write(socket, std::as_bytes(std::span(&header, 1)));
    const std::size_t expected = at_0.messages.size() + 1;
    for (Nanoseconds end = now() + kPatience; now() < end && at_0.messages.size() < expected;) move();
    EXPECT_EQ(at_0.messages.size(), expected);
  }
  void answer() {
    send(liar.honest(), 1, {}, 5, unfinished);
    liar.honest().push(0);
  }
  template <class Value>
  Value hear() {
    Value value{};
    iovec piece = piece_of(&value, sizeof(value));
    Timeout patience(20);
    long got = Socket::kNotNow;
    for (; got == Socket::kNotNow && !patience.is_over(); got = socket.receive({&piece, 1})) move();
    EXPECT_EQ(got, static_cast<long>(sizeof(value)));
    return value;
  }
};

}  // namespace

TEST(TcpTwoWay, WhoHasBeenConnectedToAnswersThere) {
  Talk talk;
  talk.answer();
  const Hello hello = talk.hear<Hello>();
  EXPECT_EQ(hello.magic, Hello::kMagic);
  EXPECT_EQ(hello.rank, 0u);
  EXPECT_EQ(talk.hear<Header>().tag, 5u);
  talk.move();
  EXPECT_FALSE(talk.liar.accept().is_open()) << "there is a second connection";
  EXPECT_TRUE(talk.at_0.failures.empty());
}

// The kernel on its own sends one for each message of one direction that is read.
TEST(TcpTwoWay, FewPacketsOnlyAcknowledge) {
  Talk talk;
  constexpr std::uint32_t kMany = 100;
  for (int i = 0; i < 20; ++i) talk.say();  // a connection acknowledges its first messages at once
  std::uint32_t before = packets_in(talk.socket);
  for (std::uint32_t i = 0; i < kMany; ++i) talk.say();
  EXPECT_LT(packets_in(talk.socket) - before, kMany * 3 / 4) << "one way";
  talk.answer();
  talk.hear<Hello>();
  talk.hear<Header>();
  before = packets_in(talk.socket);
  for (std::uint32_t i = 0; i < kMany; ++i) {
    talk.say();
    talk.answer();
    talk.hear<Header>();
  }
  EXPECT_LT(packets_in(talk.socket) - before, kMany * 5 / 4) << "both ways";
}

TEST(TcpTwoWay, WhoAnswersForAnotherRankIsAStranger) {
  test::TcpLiar liar(3);
  Copied at_0;
  std::uint32_t unfinished = 0;
  send(liar.honest(), 1, {}, 1, unfinished);
  Socket reader;
  for (Nanoseconds end = now() + kPatience; now() < end && !reader.is_open(); reader = liar.accept())
    liar.honest().progress(at_0);
  ASSERT_TRUE(reader.is_open());
  const Hello wrong = liar.hello(2);
  liar.write(reader, std::as_bytes(std::span(&wrong, 1)));
  move_until(liar.honest(), at_0, [&] { return !at_0.failures.empty(); });
  ASSERT_FALSE(at_0.failures.empty());
  EXPECT_EQ(at_0.failures[0].first, 1);
}

// The connection is still there, with nothing more to say.
TEST(TcpTwoWay, WhoHasLeftWakesNobodyAnyMore) {
  TcpPair pair;
  std::uint32_t unfinished = 0;
  send(pair.a, 1, {}, 1, unfinished);
  ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == 1; }));
  send(pair.b, 0, {}, 2, unfinished);
  ASSERT_TRUE(pair.until([&] { return pair.at_a.messages.size() == 1; }));
  pair.b.close();
  pollfd watched{pair.a.wake_fd(), POLLIN, 0};
  for (Nanoseconds end = now() + kPatience; now() < end;) {
    pair.a.progress(pair.at_a);
    if (::poll(&watched, 1, 100) == 0) break;
  }
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  EXPECT_TRUE(pair.at_a.failures.empty());
}

// The kernel never says that there is room for more: there is none from the first look on.
TEST(TcpTwoWay, WhoHasNoRoomToWriteHearsAllTheSame) {
  TcpPair pair;
  std::uint32_t unfinished = 0, answer = 0;
  const std::vector<std::byte> large = pattern(32 << 20, 1);
  send(pair.a, 1, {}, 1, unfinished);
  send(pair.a, 1, large, 2, unfinished);
  pair.a.push(0);
  ASSERT_EQ(unfinished, 1u);
  pair.a.progress(pair.at_a);
  move_until(pair.b, pair.at_b, [&] { return !pair.at_b.messages.empty(); });
  send(pair.b, 0, {}, 3, answer);
  pair.b.push(0);
  move_until(pair.a, pair.at_a, [&] { return !pair.at_a.messages.empty(); });
  EXPECT_EQ(pair.at_a.messages.size(), 1u);
  EXPECT_TRUE(pair.until([&] { return unfinished == 0; }));
}

TEST(TcpTwoWay, AnAnswerThatNobodyHasReadDoesNotCostWhatWasSent) {
  TcpPair pair;
  std::uint32_t unfinished = 0;
  const std::vector<std::byte> payload = pattern(64 << 10, 1);
  send(pair.a, 1, {}, 0, unfinished);
  pair.a.push(0);
  move_until(pair.b, pair.at_b, [&] { return !pair.at_b.messages.empty(); });
  send(pair.b, 0, {}, 1, unfinished);
  pair.b.push(0);
  std::size_t sent = 1;
  for (; sent < 20 && unfinished == 0; ++sent) {
    send(pair.a, 1, payload, sent, unfinished);
    pair.a.push(0);
  }
  for (Nanoseconds end = now() + kPatience; now() < end && unfinished > 0; pair.b.progress(pair.at_b))
    pair.a.push(0);
  std::thread end([&] { pair.a.close(); });
  move_until(pair.b, pair.at_b, [&] { return pair.at_b.messages.size() >= sent; });
  end.join();
  EXPECT_EQ(pair.at_b.messages.size(), sent);
  EXPECT_TRUE(pair.at_b.failures.empty());
}

TEST(TcpTwoWay, WhoEndsBeforeItsFirstWordHasLeftInPeace) {
  TcpPair pair;
  std::uint32_t unfinished = 0;
  send(pair.a, 1, {}, 1, unfinished);
  ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == 1; }));
  send(pair.b, 0, {}, 2, unfinished);  // waits for others to travel with
  pair.b.close();
  for (Nanoseconds end = now() + 500'000'000; now() < end;) pair.a.progress(pair.at_a);
  EXPECT_TRUE(pair.at_a.failures.empty());
}

TEST(TcpTwoWay, WhoIsNotUnderstoodIsHungUpOn) {
  Talk talk;
  talk.answer();
  talk.hear<Hello>();
  talk.hear<Header>();
  Header nonsense{};
  nonsense.from = 1;
  nonsense.turn = 77;
  talk.liar.write(talk.socket, std::as_bytes(std::span(&nonsense, 1)));
  Timeout patience(20);
  long got = Socket::kNotNow;
  Header more{};
  iovec piece = piece_of(&more, sizeof(more));
  for (; got == Socket::kNotNow && !patience.is_over(); got = talk.socket.receive({&piece, 1})) talk.move();
  EXPECT_EQ(got, 0);
}

// The kernel drops what it has not sent when something unread is there, or still comes, at the end.
TEST(TcpTwoWay, WhatWasSentBeforeTheEndArrivesWhateverComesMeanwhile) {
  TcpPair pair;
  std::uint32_t unfinished = 0;
  send(pair.b, 0, {}, 1, unfinished);
  ASSERT_TRUE(pair.until([&] { return pair.at_a.messages.size() == 1; }));
  // As much as both kernels take: a part is still with the sender's.
  const std::vector<std::byte> payload = pattern(64 << 10, 1);
  std::uint32_t waiting = 0;
  std::size_t sent = 0;
  for (; waiting == 0 && sent < 1000; ++sent) {
    send(pair.a, 1, payload, sent, waiting);
    pair.a.push(0);
  }
  for (Nanoseconds end = now() + kPatience; now() < end && waiting > 0; pair.a.progress(pair.at_a))
    pair.b.progress(pair.at_b);
  ASSERT_EQ(waiting, 0u);
  send(pair.b, 0, {}, 2, unfinished);
  pair.b.push(0);
  std::thread end([&] { pair.a.close(); });
  for (int i = 0; i < 20; ++i) {
    ::usleep(1000);
    send(pair.b, 0, {}, 3, unfinished);
    pair.b.push(0);
  }
  move_until(pair.b, pair.at_b, [&] { return pair.at_b.messages.size() >= sent; });
  end.join();
  EXPECT_EQ(pair.at_b.messages.size(), sent);
  EXPECT_TRUE(pair.at_b.failures.empty());
  for (const auto& message : pair.at_b.messages) EXPECT_TRUE(message.bytes == payload);
}

}  // namespace ddl
