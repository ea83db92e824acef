#include "core/transport/tcp.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/transport/tcp_stream.hpp"
#include "tests/support/many_files.hpp"

namespace ddl {
namespace {

constexpr Nanoseconds kPatience = 20'000'000'000;

struct Arrived {
  Header header;
  std::vector<std::byte> bytes;
};

// Copies what arrives and releases it at once, or keeps the views until they are released.
struct Copied : MessageHandler {
  std::vector<Arrived> messages;
  std::vector<std::pair<Rank, std::string>> failures;
  bool keeps = false;
  std::vector<View> kept;

  void deliver(const Header& header, const View& view) override {
    const auto* begin = static_cast<const std::byte*>(view.data());
    messages.push_back({header, {begin, begin + view.bytes()}});
    View copy = view;
    if (keeps) {
      kept.push_back(copy);
    } else {
      copy.release();
    }
  }
  void peer_failed(Rank peer, const std::string& why) override { failures.emplace_back(peer, why); }
};

// Two ranks on loopback.
struct TcpPair {
  TcpTransport a, b;
  Copied at_a, at_b;

  explicit TcpPair(std::vector<TcpRail> rails = {{"lo", "127.0.0.1"}}) : a(rails, 0), b(rails, 1) {
    std::vector<std::size_t> lanes(rails.size());
    std::iota(lanes.begin(), lanes.end(), 0);
    std::vector<std::vector<WireAddress>> addresses(2);
    for (std::size_t lane : lanes) {
      addresses[0].push_back(a.address(lane));
      addresses[1].push_back(b.address(lane));
    }
    a.set_lanes(lanes, addresses);
    b.set_lanes(lanes, addresses);
  }
  // Moves both until it is so; false when that takes too long.
  bool until(const std::function<bool()>& so) {
    for (Nanoseconds end = now() + kPatience; now() < end;) {
      a.progress(at_a);
      b.progress(at_b);
      if (so()) return true;
    }
    return false;
  }
};

std::vector<std::byte> pattern(std::size_t bytes, unsigned salt) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 2654435761u + i / 251 + salt);
  return data;
}

bool send(TcpTransport& from, Rank to, std::span<const std::byte> payload, std::uint64_t tag,
          std::uint32_t& unfinished, std::uint32_t rail = 0) {
  const Rank target[] = {to};
  Outgoing message{};
  message.header.tag = tag;
  message.header.from = 1 - to;
  message.header.bytes = static_cast<std::uint32_t>(payload.size());
  message.payload = payload;
  message.to = target;
  message.rail = rail;
  message.unfinished = &unfinished;
  return from.send(message);
}

const Arrived* find(const Copied& handler, std::uint64_t tag) {
  for (const Arrived& one : handler.messages)
    if (one.header.tag == tag) return &one;
  return nullptr;
}

const std::size_t kSizes[] = {0, 1, 64, 65, 88, 89, 256, 257, 5000, 16344, 16345, 100 << 10, 1 << 20};

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
  pair.a.flush(flushed);
  EXPECT_EQ(flushed, 1u);
  EXPECT_EQ(unfinished, 1u) << "the large one; the small one is copied";
  ASSERT_TRUE(pair.until([&] { return flushed == 0; }));
  EXPECT_EQ(unfinished, 0u);
  ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == 2; }));
  pair.a.flush(flushed);
  EXPECT_EQ(flushed, 0u) << "nothing waits";
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
  stranger.set_lanes({0}, {{wrong}, {stranger.address(0)}});
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
  a.set_lanes({0}, addresses);
  b.set_lanes({0}, addresses);
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

namespace {

// Writes what it can at its place.
struct Placed : Copied {
  std::map<std::uint64_t, std::vector<std::byte>> places;
  std::set<std::uint64_t> under_way;
  std::byte* place_for(const Header& header) override {
    if (header.tag % 2 == 0 || !under_way.insert(header.tag).second) return nullptr;
    places[header.tag].resize(header.bytes);
    return places[header.tag].data();
  }
  void leave_place(const Header& header) override { under_way.erase(header.tag); }
};

}  // namespace

// Rails of two ranks are lost on either side, again and again, in the middle of what they carry.
TEST(Tcp, WhatALostRailCarriedComesOnceOverAnother) {
  TcpPair pair({{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}, {"lo", "127.0.0.3"}});
  Placed at_a, at_b;
  constexpr std::uint64_t kMessages = 600;
  std::vector<std::vector<std::byte>> payloads;
  for (std::uint64_t tag = 0; tag < kMessages; ++tag)
    payloads.push_back(
        pattern(kSizes[(tag * 7) % std::size(kSizes)] >> (tag % 3), static_cast<unsigned>(tag)));
  std::uint32_t unfinished = 0;
  auto move = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      pair.a.progress(at_a);
      if (i % 3 == 0) pair.b.progress(at_b);
    }
  };
  for (std::uint64_t tag = 0; tag < kMessages; ++tag) {
    const auto rail = static_cast<std::uint32_t>(tag % 3);
    ASSERT_TRUE(send(pair.a, 1, payloads[tag], tag, unfinished, rail));
    ASSERT_TRUE(send(pair.b, 0, payloads[tag], tag, unfinished, rail));
    move(static_cast<int>(tag % 5));
    if (tag == 100) pair.a.give_up(1, "the test says so");
    if (tag == 101) pair.b.give_up(1, "the test says so");
    if (tag == 300) pair.b.give_up(0, "the test says so");
  }
  auto all = [&] { return at_a.messages.size() >= kMessages && at_b.messages.size() >= kMessages; };
  for (Nanoseconds end = now() + kPatience; now() < end && !all();) move(1);
  move(1000);
  for (Placed* side : {&at_a, &at_b}) {
    EXPECT_TRUE(side->failures.empty()) << side->failures[0].second;
    ASSERT_EQ(side->messages.size(), kMessages);
    std::vector<int> seen(kMessages);
    for (const Arrived& message : side->messages) {
      ++seen[message.header.tag];
      EXPECT_EQ(message.bytes, payloads[message.header.tag]) << message.header.tag;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(kMessages));
  }
  EXPECT_EQ(unfinished, 0u);
}

// The reader's kernel has it, the reader has not, and nobody sends it again.
TEST(Tcp, WhatHadComeOnALostRailIsTakenFirst) {
  TcpPair pair({{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}});
  const std::vector<std::byte> payload = pattern(100 << 10, 1);
  std::uint32_t unfinished = 0;
  for (std::uint32_t rail : {0, 1}) send(pair.a, 1, {}, 0, unfinished, rail);
  ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == 2; }));
  constexpr std::uint64_t kMessages = 6;  // more than a sender keeps without asking the kernel
  for (std::uint64_t tag = 1; tag <= kMessages; ++tag) {
    send(pair.a, 1, payload, tag, unfinished, 1);
    for (int i = 0; i < 60; ++i) {  // an acknowledgement may take 40 ms
      pair.a.progress(pair.at_a);
      ::usleep(1000);
    }
  }
  pair.a.give_up(1, "the test says so");
  ASSERT_TRUE(pair.until([&] { return pair.at_b.messages.size() == 2 + kMessages; }));
  for (std::uint64_t tag = 1; tag <= kMessages; ++tag) {
    ASSERT_NE(find(pair.at_b, tag), nullptr) << tag;
    EXPECT_EQ(find(pair.at_b, tag)->bytes, payload) << tag;
  }
}

TEST(Tcp, ARailThatWasGivenUpIsTriedAgain) {
  TcpPair pair({{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}});
  std::uint32_t unfinished = 0;
  const std::vector<std::byte> payload = pattern(1000, 1);
  std::uint64_t tag = 0;
  auto goes = [&] {
    send(pair.a, 1, payload, ++tag, unfinished, 1);
    return pair.until([&] { return pair.at_b.messages.size() == tag; });
  };
  ASSERT_TRUE(goes());
  const Bytes before = pair.a.bytes_sent(1);
  pair.a.give_up(1, "the test says so");
  ASSERT_TRUE(goes());
  EXPECT_EQ(pair.a.bytes_sent(1), before);
  bool is_back = false;
  std::uint32_t flushed = 0;  // nobody waits for a rail that is tried again
  for (Nanoseconds end = now() + kPatience; now() < end && !is_back;) {
    ASSERT_TRUE(goes());
    pair.a.flush(flushed);
    is_back = pair.a.bytes_sent(1) > before;
  }
  ASSERT_TRUE(pair.until([&] { return flushed == 0; }));
  EXPECT_TRUE(is_back);
  ASSERT_TRUE(goes());
  EXPECT_TRUE(pair.at_a.failures.empty() && pair.at_b.failures.empty());
}

namespace {

// Two ranks with two rails, and numbered messages both ways on both.
struct BothWays : TcpPair {
  const std::vector<std::byte> payload = pattern(70'000, 1);
  std::uint64_t sent = 0;
  std::uint32_t unfinished = 0;

  BothWays() : TcpPair({{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}}) {}
  bool goes() {
    for (std::uint32_t rail : {0, 1}) {
      send(a, 1, payload, ++sent, unfinished, rail);
      send(b, 0, payload, sent, unfinished, rail);
    }
    return until([&] { return at_a.messages.size() >= sent && at_b.messages.size() >= sent; }) && is_well();
  }
  bool is_well() const {
    return at_a.failures.empty() && at_b.failures.empty() && at_a.messages.size() == sent &&
           at_b.messages.size() == sent;
  }
  // Takes as much as the other end needs to hear of what was said before, and more.
  bool goes_on() {
    for (int i = 0; i < 20; ++i)
      if (!goes()) return false;
    return true;
  }
};

}  // namespace

TEST(Tcp, NoPeerFailsBecauseItsRailsAreSlow) {
  BothWays pair;
  ASSERT_TRUE(pair.goes());
  pair.a.give_up(1, "the test says so", Loss::of_speed);
  ASSERT_TRUE(pair.goes_on());
  for (TcpTransport* one : {&pair.a, &pair.b}) {
    const Bytes before = one->bytes_sent(0);
    one->give_up(0, "the test says so", Loss::of_speed);
    one->give_up(0, "the test says so", Loss::of_several);
    ASSERT_TRUE(pair.goes_on());
    EXPECT_GT(one->bytes_sent(0), before);
  }
}

TEST(Tcp, NoPeerFailsBecauseEachEndFindsAnotherRailSlow) {
  BothWays pair;
  ASSERT_TRUE(pair.goes());
  pair.a.give_up(1, "the test says so", Loss::of_speed);
  pair.b.give_up(0, "the test says so", Loss::of_speed);
  EXPECT_TRUE(pair.goes_on());
}

TEST(Tcp, ASlowRailCarriesAgainWhenTheOtherBreaks) {
  BothWays pair;
  ASSERT_TRUE(pair.goes());
  pair.a.give_up(1, "the test says so", Loss::of_speed);
  ASSERT_TRUE(pair.goes_on());
  const Bytes before = pair.a.bytes_sent(1);
  pair.a.give_up(0, "the test says so");
  ASSERT_TRUE(pair.goes_on());
  EXPECT_GT(pair.a.bytes_sent(1), before);
  pair.b.give_up(0, "the test says so");
  EXPECT_TRUE(pair.goes_on());
}

// Its connections end before the word comes that says why.
TEST(Tcp, ARailThatTheOtherEndFindsSlowIsCalledSlow) {
  BothWays pair;
  ASSERT_TRUE(pair.goes());
  const std::vector<std::byte> large = pattern(4 << 20, 1);  // more than the kernel takes at once
  send(pair.a, 1, large, ++pair.sent, pair.unfinished, 0);
  send(pair.b, 0, pair.payload, pair.sent, pair.unfinished, 0);
  ::testing::internal::CaptureStderr();
  pair.a.give_up(1, "it crawls", Loss::of_speed);
  for (int i = 0; i < 100; ++i) pair.b.progress(pair.at_b);
  EXPECT_TRUE(pair.goes_on());
  pair.b.close();  // says what it has to say
  pair.a.close();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("it crawls"), std::string::npos) << said;
  EXPECT_EQ(said.find("onnection"), std::string::npos) << said;
}

TEST(Tcp, APeerThatDiesHasFailedOnAllItsRails) {
  std::vector<TcpRail> rails = {{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}};
  TcpTransport a(rails, 0);
  Copied at_a;
  std::vector<std::vector<WireAddress>> addresses(2);
  {
    TcpTransport b(rails, 1);
    for (std::size_t lane : {0, 1}) {
      addresses[0].push_back(a.address(lane));
      addresses[1].push_back(b.address(lane));
    }
  }  // nobody listens there any more
  a.set_lanes({0, 1}, addresses);
  std::uint32_t unfinished = 0;
  const std::vector<std::byte> payload = pattern(1000, 1);
  send(a, 1, payload, 1, unfinished, 1);
  for (Nanoseconds end = now() + kPatience; now() < end && at_a.failures.empty();) a.progress(at_a);
  ASSERT_FALSE(at_a.failures.empty());
  EXPECT_EQ(at_a.failures[0].first, 1);
}

}  // namespace ddl
