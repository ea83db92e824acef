// How TcpTransport survives the loss of rails.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/transport/tcp.hpp"
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
TEST(TcpLostRails, WhatALostRailCarriedComesOnceOverAnother) {
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
TEST(TcpLostRails, WhatHadComeOnALostRailIsTakenFirst) {
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

// The only other rail cannot be opened at first: the stream goes on, and is the one of before to its reader.
TEST(TcpLostRails, OneThatCouldNotBeSparedIsGivenUpOnceMoreWithoutRepeatingAnything) {
  TcpPair pair({{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}});
  std::uint32_t unfinished = 0;
  std::uint64_t sent = 0;
  auto goes = [&](std::uint32_t rail) {
    send(pair.a, 1, {}, sent++, unfinished, rail);
    return pair.until([&] { return pair.at_b.messages.size() >= sent; });
  };
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(goes(0));
  {
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const int free = ::dup(0);
    const rlimit none{static_cast<rlim_t>(free), before.rlim_max};
    ::close(free);
    ::setrlimit(RLIMIT_NOFILE, &none);
    pair.a.give_up(0, "the test says that it is slow", Loss::of_speed);
    ::setrlimit(RLIMIT_NOFILE, &before);
  }
  ASSERT_TRUE(goes(0));
  ASSERT_EQ(pair.a.bytes_sent(1), 0u);
  for (Nanoseconds end = now() + kPatience; now() < end && pair.a.bytes_sent(1) == 0; ::usleep(20'000))
    ASSERT_TRUE(goes(1));
  ASSERT_GT(pair.a.bytes_sent(1), 0u) << "the other has not been tried again";
  pair.a.give_up(0, "the test says so");
  ASSERT_TRUE(goes(0));
  for (int i = 0; i < 1000; ++i) {
    pair.a.progress(pair.at_a);
    pair.b.progress(pair.at_b);
  }
  EXPECT_EQ(pair.at_b.messages.size(), sent);
  EXPECT_TRUE(pair.at_a.failures.empty() && pair.at_b.failures.empty());
}

TEST(TcpLostRails, ARailThatWasGivenUpIsTriedAgain) {
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
    pair.a.flush(std::array<Rank, 1>{1}, flushed);
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

TEST(TcpLostRails, NoPeerFailsBecauseItsRailsAreSlow) {
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

TEST(TcpLostRails, NoPeerFailsBecauseEachEndFindsAnotherRailSlow) {
  BothWays pair;
  ASSERT_TRUE(pair.goes());
  pair.a.give_up(1, "the test says so", Loss::of_speed);
  pair.b.give_up(0, "the test says so", Loss::of_speed);
  EXPECT_TRUE(pair.goes_on());
}

TEST(TcpLostRails, ASlowRailCarriesAgainWhenTheOtherBreaks) {
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
TEST(TcpLostRails, ARailThatTheOtherEndFindsSlowIsCalledSlow) {
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

TEST(TcpLostRails, APeerThatDiesHasFailedOnAllItsRails) {
  std::vector<TcpRail> rails = {{"lo", "127.0.0.1"}, {"lo", "127.0.0.2"}};
  TcpTransport a(rails, 0);
  Copied at_a;
  std::vector<std::vector<WireAddress>> addresses(2);
  {
    TcpTransport b(rails, 1);
    for (std::size_t rail : {0, 1}) {
      addresses[0].push_back(a.address(rail));
      addresses[1].push_back(b.address(rail));
    }
  }  // nobody listens there any more
  a.set_rails({0, 1}, addresses);
  std::uint32_t unfinished = 0;
  const std::vector<std::byte> payload = pattern(1000, 1);
  send(a, 1, payload, 1, unfinished, 1);
  for (Nanoseconds end = now() + kPatience; now() < end && at_a.failures.empty();) a.progress(at_a);
  ASSERT_FALSE(at_a.failures.empty());
  EXPECT_EQ(at_a.failures[0].first, 1);
}

}  // namespace ddl
