#include "core/transport/tcp.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/transport/tcp_stream.hpp"
#include "tests/support/many_files.hpp"
#include "tests/support/tcp_pair.hpp"

namespace ddl {

namespace {

using test::Arrived;
using test::Copied;
using test::find;
using test::kPatience;
using test::kSizes;
using test::pattern;
using test::send;
using test::TcpPair;

constexpr Rank kB[] = {1};  // the other one of a pair

}  // namespace

TEST(Tcp, MessagesOfEverySizeArriveWholeBothWaysAtOnce) {
  TcpPair pair;
  std::vector<std::vector<std::byte>> payloads;
  for (std::size_t bytes : kSizes) payloads.push_back(pattern(bytes, static_cast<unsigned>(payloads.size())));
  std::uint32_t unfinished_a = 0, unfinished_b = 0;
  for (std::uint64_t tag = 0; tag < payloads.size(); ++tag) {
    EXPECT_TRUE(send(pair.a, 1, payloads[tag], tag, unfinished_a));
    EXPECT_TRUE(send(pair.b, 0, payloads[tag], tag, unfinished_b));
  }
  ASSERT_TRUE(pair.until([&] {
    return pair.at_a.messages.size() == payloads.size() && pair.at_b.messages.size() == payloads.size();
  }));
  EXPECT_EQ(unfinished_a, 0u);
  EXPECT_EQ(unfinished_b, 0u);
  for (std::uint64_t tag = 0; tag < payloads.size(); ++tag)
    for (const Copied* handler : {&pair.at_a, &pair.at_b}) {
      const Arrived* one = find(*handler, tag);
      ASSERT_TRUE(one) << tag;
      EXPECT_TRUE(one->bytes == payloads[tag]) << payloads[tag].size() << " bytes arrived damaged";
    }
  EXPECT_TRUE(pair.at_a.failures.empty() && pair.at_b.failures.empty());
}

TEST(Tcp, MessagesThatComeOneByOneArriveToo) {
  TcpPair pair;
  std::uint32_t unfinished = 0;
  std::uint64_t tag = 0;
  for (int round = 0; round < 3; ++round)
    for (std::size_t bytes : kSizes) {
      std::vector<std::byte> payload = pattern(bytes, static_cast<unsigned>(tag));
      send(pair.a, 1, payload, tag, unfinished);
      ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == tag + 1; }));
      EXPECT_TRUE(pair.at_b.messages.back().bytes == payload) << bytes;
      ++tag;
    }
}

TEST(Tcp, ASenderNeverBlocksOnAReceiverThatDoesNotRead) {
  TcpPair pair;
  constexpr std::uint64_t kMany = 300;
  std::vector<std::vector<std::byte>> payloads;
  std::uint32_t unfinished = 0;
  Nanoseconds began = now();
  for (std::uint64_t tag = 0; tag < kMany; ++tag)
    payloads.push_back(pattern(tag % 3 == 0 ? 100 : (128 << 10) + tag, static_cast<unsigned>(tag)));
  for (std::uint64_t tag = 0; tag < kMany; ++tag) {
    EXPECT_TRUE(send(pair.a, 1, payloads[tag], tag, unfinished));
    pair.a.progress(pair.at_a);
  }
  EXPECT_LT(now() - began, kPatience / 2);
  EXPECT_GT(unfinished, 0u) << "25 MiB cannot all be the kernel's";
  // Small payloads are copied: their memory is the caller's again.
  for (std::uint64_t tag = 0; tag < kMany; tag += 3)
    std::fill(payloads[tag].begin(), payloads[tag].end(), std::byte{0});
  ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == kMany; }));
  EXPECT_EQ(unfinished, 0u);
  for (std::uint64_t tag = 0; tag < kMany; ++tag) {
    const Arrived* one = find(pair.at_b, tag);
    ASSERT_TRUE(one) << tag;
    EXPECT_TRUE(one->bytes == pattern(payloads[tag].size(), static_cast<unsigned>(tag))) << tag;
  }
}

TEST(Tcp, FlushCountsUntilTheKernelHasAll) {
  TcpPair pair;
  std::vector<std::byte> large = pattern(16 << 20, 1);  // more than the kernel takes
  std::uint32_t unfinished = 0, flushed = 0;
  send(pair.a, 1, large, 1, unfinished);
  send(pair.a, 1, std::span(large).first(10), 2, unfinished);
  pair.a.progress(pair.at_a);
  pair.a.flush(kB, flushed);
  EXPECT_EQ(flushed, 1u);
  EXPECT_EQ(unfinished, 1u) << "the large one; the small one is copied";
  ASSERT_TRUE(pair.until([&] { return flushed == 0; }));
  EXPECT_EQ(unfinished, 0u);
  ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == 2; }));
  pair.a.flush(kB, flushed);
  EXPECT_EQ(flushed, 0u) << "nothing waits";
}

// Two rails may break at once, before anybody has looked at either.
TEST(Tcp, WhatIsGivenToABrokenStreamIsTakenOver) {
  std::array<int, 2> gone{}, there{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, gone.data()), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, there.data()), 0);
  ::close(gone[1]);
  OutStream broken(Socket(gone[0]), Hello{}, Keeps::unacknowledged), next(Socket(there[0]), Hello{});
  Header header{};
  std::uint32_t unfinished = 0;
  const std::vector<std::byte> payload = pattern(1000, 1);
  broken.send(header, payload, unfinished);
  broken.push(0);
  ASSERT_EQ(broken.state(), StreamState::broken);
  broken.send(header, payload, unfinished);
  EXPECT_EQ(unfinished, 2u);
  next.take_over(broken, 1, Loss::of_a_peer);
  EXPECT_EQ(unfinished, 0u);
  std::array<std::byte, 4096> came{};
  const auto bytes = static_cast<std::size_t>(::read(there[1], came.data(), came.size()));
  EXPECT_EQ(bytes, sizeof(Hello) + sizeof(Header) + 2 * (sizeof(Header) + payload.size()));
  ::close(there[1]);
}

TEST(Tcp, FlushWaitsForNobodyElse) {
  std::vector<TcpRail> rails = {{"lo", "127.0.0.1"}};
  TcpTransport a(rails, 0), b(rails, 1), c(rails, 2);
  Copied at_a, at_b, at_c;
  std::vector<std::vector<WireAddress>> addresses = {{a.address(0)}, {b.address(0)}, {c.address(0)}};
  for (TcpTransport* one : {&a, &b, &c}) one->set_rails({0}, addresses);
  const std::vector<std::byte> large = pattern(16 << 20, 1);  // more than the kernel takes
  std::uint32_t unfinished = 0, flushed = 0;
  send(a, 2, large, 1, unfinished);
  send(a, 1, std::span(large).first(10), 2, unfinished);
  a.flush(kB, flushed);
  auto until = [&](auto&& so, std::initializer_list<std::pair<TcpTransport*, Copied*>> moved) {
    for (Nanoseconds end = now() + kPatience; now() < end && !so();)
      for (auto [one, handler] : moved) one->progress(*handler);
    return so();
  };
  EXPECT_TRUE(until([&] { return flushed == 0 && at_b.messages.size() == 1; }, {{&a, &at_a}, {&b, &at_b}}));
  EXPECT_EQ(unfinished, 1u) << "of who does not read";
  EXPECT_TRUE(until([&] { return unfinished == 0; }, {{&a, &at_a}, {&c, &at_c}}));
}

TEST(Tcp, AViewStaysUntilItIsReleasedAndItsMemoryIsUsedAgain) {
  TcpPair pair;
  pair.at_b.keeps = true;
  std::uint32_t unfinished = 0;
  std::vector<std::vector<std::byte>> payloads;
  for (unsigned salt = 0; salt < 3; ++salt) payloads.push_back(pattern(70'000, salt));
  for (std::uint64_t tag = 0; tag < 3; ++tag) send(pair.a, 1, payloads[tag], tag, unfinished);
  ASSERT_TRUE(pair.until([&] { return pair.at_b.kept.size() == 3; }));
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(std::memcmp(pair.at_b.kept[i].data(), payloads[i].data(), payloads[i].size()), 0);
  const void* first = pair.at_b.kept[0].data();
  pair.at_b.kept[0].release();
  send(pair.a, 1, payloads[0], 3, unfinished);
  ASSERT_TRUE(pair.until([&] { return pair.at_b.kept.size() == 4; }));
  EXPECT_EQ(pair.at_b.kept[3].data(), first);
  for (View& view : pair.at_b.kept) view.release();
}

TEST(Tcp, TwoRailsCarryTheirOwnBytes) {
  TcpPair pair({{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}});
  std::vector<std::byte> payload = pattern(1000, 1);
  std::uint32_t unfinished = 0;
  send(pair.a, 1, payload, 1, unfinished, 0);
  send(pair.a, 1, payload, 2, unfinished, 1);
  send(pair.a, 1, payload, 3, unfinished, 1);
  ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == 3; }));
  EXPECT_EQ(pair.a.bytes_sent(0), 1040u);
  EXPECT_EQ(pair.a.bytes_sent(1), 2080u);
  EXPECT_EQ(pair.b.bytes_sent(0), 0u);
}

TEST(Tcp, AStrangerIsRefusedAndHarmsNobody) {
  TcpPair pair;
  TcpTransport stranger({{"lo", "127.0.0.1"}}, 1);
  WireAddress wrong = pair.a.address(0);
  wrong[0] ^= std::byte{1};  // of the token
  stranger.set_rails({0}, {{wrong}, {stranger.address(0)}});
  std::vector<std::byte> payload = pattern(1000, 1);
  std::uint32_t unfinished = 0;
  Copied at_stranger;
  send(stranger, 0, payload, 1, unfinished);
  ASSERT_TRUE(pair.until([&] {
    stranger.progress(at_stranger);
    return !at_stranger.failures.empty();
  })) << "it was not thrown out";
  EXPECT_TRUE(pair.at_a.messages.empty());
  EXPECT_TRUE(pair.at_a.failures.empty());
  send(pair.b, 0, payload, 2, unfinished);
  ASSERT_TRUE(pair.until([&] { return pair.at_a.messages.size() == 1; }));
}

// Whoever may reach a rank's port: they say nothing, half a hello, or come from somewhere else.
TEST(Tcp, ACrowdOfStrangersKeepsNobodyOut) {
  TcpPair pair;
  struct Address {  // as in WireAddress
    std::uint64_t token;
    Endpoint endpoint;
  } at_a{};
  std::memcpy(&at_a, pair.a.address(0).data(), sizeof(at_a));
  const test::ManyFiles files;
  std::vector<Socket> strangers;
  for (int i = 0, most = files.at_most(10'000); i < most; ++i) {
    strangers.push_back(start_connecting(at_a.endpoint, parse_address(i % 3 ? "127.0.0.1" : "127.0.0.9")));
    if (!strangers.back().is_open()) strangers.pop_back();  // out of descriptors: as many as there can be
    if (i % 2) {
      std::uint64_t half = Hello::kMagic;
      iovec piece = piece_of(&half, sizeof(half));
      strangers.back().send({&piece, 1});
    }
    pair.a.progress(pair.at_a);
  }
  std::uint32_t unfinished = 0;
  const std::vector<std::byte> payload = pattern(1000, 1);
  send(pair.b, 0, payload, 2, unfinished);
  EXPECT_TRUE(pair.until([&] { return pair.at_a.messages.size() == 1; }));
  EXPECT_TRUE(pair.at_a.failures.empty() && pair.at_b.failures.empty());
}

TEST(Tcp, WhoEndsBecauseOfAnotherSaysSo) {
  std::vector<std::vector<WireAddress>> addresses;
  TcpTransport a({{"lo", "127.0.0.1"}}, 0), b({{"lo", "127.0.0.1"}}, 1);
  for (const TcpTransport* one : {&a, &b}) addresses.push_back({one->address(0)});
  {
    TcpTransport gone({{"lo", "127.0.0.1"}}, 2);
    addresses.push_back({gone.address(0)});
  }
  a.set_rails({0}, addresses);
  b.set_rails({0}, addresses);
  Copied at_a, at_b;
  std::uint32_t unfinished = 0;
  const std::vector<std::byte> payload = pattern(10, 1);
  send(b, 0, payload, 1, unfinished);
  send(b, 2, payload, 2, unfinished);
  for (Nanoseconds end = now() + kPatience; now() < end && at_a.failures.empty();) {
    a.progress(at_a);
    b.progress(at_b);
  }
  ASSERT_FALSE(at_a.failures.empty() || at_b.failures.empty());
  EXPECT_EQ(at_a.failures[0].first, 2);
  EXPECT_NE(at_a.failures[0].second.find("rank 1 says so"), std::string::npos) << at_a.failures[0].second;
  EXPECT_EQ(at_b.failures[0].first, 2);
}

// Its words may come that way first.
TEST(Tcp, WhatAFailedRankSaysIsPassedOn) {
  std::vector<std::vector<WireAddress>> addresses;
  TcpTransport a({{"lo", "127.0.0.1"}}, 0), b({{"lo", "127.0.0.1"}}, 1), failed({{"lo", "127.0.0.1"}}, 2);
  for (TcpTransport* one : {&a, &b, &failed}) addresses.push_back({one->address(0)});
  for (TcpTransport* one : {&a, &b, &failed}) one->set_rails({0}, addresses);
  Copied at_a, at_b, at_failed;
  std::uint32_t unfinished = 0;
  const std::vector<std::byte> payload = pattern(10, 1);
  send(b, 0, payload, 1, unfinished);
  send(failed, 1, payload, 2, unfinished);  // only b can hear it
  failed.say_failed("no memory");
  for (Nanoseconds end = now() + kPatience; now() < end && at_a.failures.empty();) {
    a.progress(at_a);
    b.progress(at_b);
    failed.progress(at_failed);
  }
  ASSERT_FALSE(at_a.failures.empty() || at_b.failures.empty());
  for (const Copied* one : {&at_a, &at_b}) {
    EXPECT_EQ(one->failures[0].first, 2);
    EXPECT_NE(one->failures[0].second.find("it has failed: no memory"), std::string::npos)
        << one->failures[0].second;
  }
}

TEST(Tcp, APeerThatDiesIsNamedByWhoReadsAndByWhoWrites) {
  TcpPair pair;
  std::uint32_t unfinished = 0;
  // The child is rank 1: it says something, hears something and dies without a word.
  pid_t child = ::fork();
  if (child == 0) {
    std::byte one{1};
    send(pair.b, 0, {&one, 1}, 7, unfinished);
    for (Nanoseconds end = now() + kPatience; now() < end && pair.at_b.messages.empty();)
      pair.b.progress(pair.at_b);
    ::kill(::getpid(), SIGKILL);
  }
  pair.b.close();  // the child's copies are the only ones left
  std::byte one{2};
  send(pair.a, 1, {&one, 1}, 8, unfinished);
  for (Nanoseconds end = now() + kPatience; now() < end && pair.at_a.failures.size() < 2;)
    pair.a.progress(pair.at_a);
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(pair.at_a.messages.size(), 1u);
  ASSERT_EQ(pair.at_a.failures.size(), 2u);
  for (const auto& [peer, why] : pair.at_a.failures) {
    EXPECT_EQ(peer, 1);
    EXPECT_NE(why.find("lo"), std::string::npos) << why;
  }
}

TEST(Tcp, APeerThatClosesIsNoFailureUntilSomethingIsSentToIt) {
  TcpPair pair;
  std::byte one{1};
  std::uint32_t unfinished = 0;
  send(pair.a, 1, {&one, 1}, 1, unfinished);
  send(pair.b, 0, {&one, 1}, 2, unfinished);
  ASSERT_TRUE(pair.until([&] { return !pair.at_a.messages.empty() && !pair.at_b.messages.empty(); }));
  pair.b.close();
  for (int i = 0; i < 500; ++i) {
    pair.a.progress(pair.at_a);
    ::usleep(1000);
  }
  EXPECT_TRUE(pair.at_a.failures.empty());
  send(pair.a, 1, {&one, 1}, 3, unfinished);
  for (Nanoseconds end = now() + kPatience; now() < end && pair.at_a.failures.empty();)
    pair.a.progress(pair.at_a);
  ASSERT_EQ(pair.at_a.failures.size(), 1u);
  EXPECT_EQ(pair.at_a.failures[0].first, 1);
}

TEST(Tcp, APeerWhoseListenerIsGoneIsNamed) {
  TcpPair pair;
  pair.b.close();
  std::byte one{1};
  std::uint32_t unfinished = 0;
  send(pair.a, 1, {&one, 1}, 1, unfinished);
  for (Nanoseconds end = now() + kPatience; now() < end && pair.at_a.failures.empty();)
    pair.a.progress(pair.at_a);
  ASSERT_FALSE(pair.at_a.failures.empty());
  EXPECT_EQ(pair.at_a.failures[0].first, 1);
}

TEST(Tcp, ClosingInTheMiddleLeavesTheCountersOfTheSenderAlone) {
  TcpPair pair;
  std::vector<std::byte> large = pattern(16 << 20, 1);  // more than the kernel takes
  {
    std::uint32_t unfinished = 0;
    send(pair.a, 1, large, 1, unfinished);
    pair.a.progress(pair.at_a);
    EXPECT_EQ(unfinished, 1u);
    Nanoseconds began = now();
    pair.a.close();
    EXPECT_LT(now() - began, kPatience);
    EXPECT_EQ(unfinished, 1u);
  }
  ASSERT_TRUE(pair.until([&] { return !pair.at_b.failures.empty(); })) << "half a message is a failure";
  EXPECT_TRUE(pair.at_b.messages.empty());
}

TEST(Tcp, TheDescriptorIsReadableWhenAMessageWaits) {
  TcpPair pair;
  std::byte one{1};
  std::uint32_t unfinished = 0;
  send(pair.a, 1, {&one, 1}, 1, unfinished);
  ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == 1; }));
  while (pair.b.progress(pair.at_b)) continue;
  pollfd watched{pair.b.wake_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  send(pair.a, 1, {&one, 1}, 2, unfinished);
  EXPECT_EQ(::poll(&watched, 1, 0), 0) << "it waits for others to travel with";
  pair.a.push(0);
  EXPECT_EQ(::poll(&watched, 1, 10'000), 1);
}

TEST(Tcp, AnInterfaceWithoutAUsableAddressIsNamed) {
  try {
    TcpTransport broken({{"eth7", "192.0.2.1"}}, 0);
    FAIL() << "listens on an address that this host does not have";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("eth7"), std::string::npos);
  }
  EXPECT_THROW(TcpTransport({{"eth7", ""}}, 0), Error);
}

}  // namespace ddl
