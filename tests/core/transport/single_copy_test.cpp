#include "core/transport/single_copy.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <thread>

#include "core/base/clock.hpp"
#include "core/transport/shared_memory.hpp"
#include "tests/support/forbid.hpp"
#include "tests/support/memory_ranks.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {

using test::forbid, test::Kept, test::kStaging, test::MemoryPair, test::message_of, test::peers_of;
using Fetched = SharedMemoryTransport::Fetched;

namespace {

// A payload that the last two ranks are to read where it is.
struct ReadByTwo {
  std::vector<LocalPeer> peers;
  std::vector<std::unique_ptr<SharedMemoryTransport>> at;
  std::vector<std::byte> payload = std::vector<std::byte>(50'000, std::byte{42});
  std::vector<std::byte> read = std::vector<std::byte>(50'000);
  std::uint32_t unfinished = 0;
  std::array<Rank, 2> to;
  explicit ReadByTwo(Rank ranks = 3) : peers(peers_of(ranks)), to{ranks - 2, ranks - 1} {
    for (int place : {0, ranks - 2, ranks - 1})
      at.push_back(std::make_unique<SharedMemoryTransport>(peers, place, kStaging));
  }
  bool send() {
    Outgoing message = message_of(payload, to);
    message.header.tag = 77;
    message.unfinished = &unfinished;
    return at[0]->send_single_copy(message);
  }
};

}  // namespace

TEST(SingleCopy, APayloadIsReadWhereItIsAndItsSenderHearsOfTheLastReader) {
  ReadByTwo trio;
  ASSERT_TRUE(trio.send());
  EXPECT_EQ(trio.unfinished, 1u);
  trio.payload[49'999] = std::byte{43};  // no copy was made
  Kept nothing;
  for (std::size_t reader : {1u, 2u}) {
    EXPECT_FALSE(trio.at[0]->progress(nothing));
    EXPECT_EQ(trio.unfinished, 1u) << "the other one has not read it";
    Kept arrived;
    ASSERT_TRUE(trio.at[reader]->progress(arrived));
    ASSERT_EQ(arrived.messages.size(), 1u);
    View view = arrived.messages[0].second;
    ASSERT_TRUE(view.is_elsewhere());
    ASSERT_EQ(SharedMemoryTransport::fetch(view, trio.read.data()), Fetched::all);
    EXPECT_EQ(trio.read, trio.payload);
    EXPECT_FALSE(trio.at[0]->has_arrived());
    view.release();
  }
  EXPECT_TRUE(trio.at[0]->has_arrived()) << "its sender waits for it, as for a message";
  EXPECT_TRUE(trio.at[0]->progress(nothing));
  EXPECT_EQ(trio.unfinished, 0u);
  EXPECT_FALSE(trio.at[0]->has_arrived());
}

TEST(SingleCopy, WhoHasYetToReadIsKnown) {
  for (Rank ranks : {3, 66, 130}) {
    ReadByTwo trio(ranks);
    ASSERT_TRUE(trio.send());
    auto awaited = [&trio](const std::uint32_t* unfinished) {
      std::vector<Rank> found;
      trio.at[0]->each_awaited_reader(unfinished, [&found](Rank rank) { found.push_back(rank); });
      return found;
    };
    const std::uint32_t others = 0;
    EXPECT_EQ(awaited(&trio.unfinished), (std::vector<Rank>{ranks - 2, ranks - 1}));
    EXPECT_EQ(awaited(&others), std::vector<Rank>{});
    for (std::size_t reader : {1u, 2u}) {
      Kept arrived;
      trio.at[reader]->progress(arrived);
      arrived.messages.at(0).second.release();
      EXPECT_EQ(awaited(&trio.unfinished), reader == 1 ? std::vector<Rank>{ranks - 1} : std::vector<Rank>{});
    }
  }
}

// Its program has the buffer back by then.
TEST(SingleCopy, WhatAFailedSenderHasSentIsRefused) {
  ReadByTwo trio;
  ASSERT_TRUE(trio.send());
  Kept arrived;
  ASSERT_TRUE(trio.at[1]->progress(arrived));
  View view = arrived.messages.at(0).second;
  trio.at[0]->withdraw_payloads();
  EXPECT_EQ(SharedMemoryTransport::fetch(view, trio.read.data()), Fetched::refused);
  view.release();
}

TEST(SingleCopy, WhoCannotReadAPayloadIsSentACopyAlone) {
  ReadByTwo trio;
  ASSERT_TRUE(trio.send());
  Kept first, second, nothing;
  trio.at[1]->progress(first);
  trio.at[2]->progress(second);
  std::thread([&] {
    forbid(SYS_process_vm_readv);
    EXPECT_EQ(SharedMemoryTransport::fetch(second.messages[0].second, trio.read.data()), Fetched::refused);
  }).join();
  SharedMemoryTransport::ask_for_copy(second.messages[0].second);
  for (Kept* one : {&first, &second}) one->messages[0].second.release();
  EXPECT_TRUE(trio.at[0]->progress(nothing));
  EXPECT_EQ(trio.unfinished, 0u) << "the copy is made";
  EXPECT_FALSE(trio.at[1]->progress(first));
  ASSERT_TRUE(trio.at[2]->progress(second));
  const auto& [header, view] = second.messages[1];
  EXPECT_EQ(header.tag, 77u);
  ASSERT_FALSE(view.is_elsewhere());
  EXPECT_EQ(std::memcmp(view.data(), trio.payload.data(), trio.payload.size()), 0);
}

TEST(SingleCopy, ACopyThatFindsNoRoomIsSentLater) {
  MemoryPair pair;
  std::vector<std::byte> payload(50'000, std::byte{42});
  std::uint32_t unfinished = 0;
  const Rank to[] = {1};
  Outgoing message = message_of(payload, to);
  message.unfinished = &unfinished;
  ASSERT_TRUE(pair.a->send_single_copy(message));
  Kept arrived, nothing;
  pair.b->progress(arrived);
  while (pair.a->send(message_of({}, to))) continue;
  SharedMemoryTransport::ask_for_copy(arrived.messages[0].second);
  arrived.messages[0].second.release();
  pair.a->progress(nothing);
  EXPECT_EQ(unfinished, 1u);
  pair.b->progress(arrived);
  pair.a->progress(nothing);
  EXPECT_EQ(unfinished, 0u);
  pair.b->progress(arrived);
  EXPECT_EQ(arrived.messages.back().second.bytes(), payload.size());
}

namespace {

// A payload that rank 1 is to read where it is, and rank 0 to write there, too.
struct CopiedByBoth {
  static constexpr Bytes kBytes = (1 << 20) + 333;
  static constexpr Rank kTo[] = {1};
  MemoryPair pair;
  std::vector<std::byte> payload = std::vector<std::byte>(kBytes), into = std::vector<std::byte>(kBytes);
  std::uint32_t unfinished = 0;
  Kept arrived, nothing;
  CopiedByBoth() {
    for (Bytes i = 0; i < kBytes; ++i) payload[i] = static_cast<std::byte>(i * 7 / 5);
    Outgoing message = message_of(payload, kTo);
    message.unfinished = &unfinished;
    message.is_joint = true;
    EXPECT_TRUE(pair.a->send_single_copy(message));
    pair.b->progress(arrived);
  }
  View& view() { return arrived.messages.at(0).second; }
  void offer() { SharedMemoryTransport::offer_place(view(), into.data()); }
  Fetched fetch() { return SharedMemoryTransport::fetch(view(), into.data()); }
  void expect_sent() {
    EXPECT_EQ(into, payload);
    view().release();
    pair.a->progress(nothing);
    EXPECT_EQ(unfinished, 0u);
    EXPECT_FALSE(pair.a->has_arrived());
  }
};

}  // namespace

TEST(SingleCopy, ASenderWritesNothingBeforeItHasAPlace) {
  CopiedByBoth both;
  EXPECT_FALSE(both.pair.a->has_arrived());
  EXPECT_FALSE(both.pair.a->take_to_write().joint);
  EXPECT_EQ(both.fetch(), Fetched::all);
  both.expect_sent();
}

TEST(SingleCopy, BothCopyFromTheirEndAndTheReaderWaitsForWhatItsSenderHasTaken) {
  CopiedByBoth both;
  both.offer();
  EXPECT_TRUE(both.pair.a->has_arrived()) << "it may begin";
  const auto last = both.pair.a->take_to_write();
  ASSERT_TRUE(last.joint);
  EXPECT_EQ(last.piece.first + last.piece.bytes, both.payload.size());
  EXPECT_LT(last.piece.bytes, both.payload.size() / 2);
  EXPECT_EQ(both.fetch(), Fetched::not_yet);
  EXPECT_EQ(std::memcmp(both.into.data(), both.payload.data(), last.piece.first), 0);
  EXPECT_EQ(both.into.back(), std::byte{0}) << "that is its sender's";
  EXPECT_FALSE(both.pair.a->take_to_write().joint) << "nothing is left";
  SharedMemoryTransport::write(last);
  EXPECT_EQ(both.fetch(), Fetched::all);
  both.expect_sent();
}

TEST(SingleCopy, WhoHasFailedOffersNoPlace) {
  CopiedByBoth both;
  both.pair.b->stop_offering();
  both.offer();
  EXPECT_FALSE(both.pair.a->take_to_write().joint);
}

// A reader that has given up waiting counts itself out.
TEST(SingleCopy, ABlockIsNotUsedAgainWhileItsSenderWrites) {
  CopiedByBoth both;
  both.offer();
  const auto late = both.pair.a->take_to_write();
  SharedMemoryTransport::withdraw_place(both.view(), 0);
  both.view().release();
  both.pair.a->progress(both.nothing);
  EXPECT_EQ(both.unfinished, 1u);
  SharedMemoryTransport::write(late);
  EXPECT_EQ(both.into.back(), std::byte{0}) << "it was given up";
  both.pair.a->progress(both.nothing);
  EXPECT_EQ(both.unfinished, 0u);
}

TEST(SingleCopy, ASenderMayWriteAllOfIt) {
  CopiedByBoth both;
  both.offer();
  for (auto part = both.pair.a->take_to_write(); part.joint; part = both.pair.a->take_to_write())
    SharedMemoryTransport::write(part);
  EXPECT_EQ(both.into, both.payload);
  EXPECT_EQ(both.fetch(), Fetched::all);
  both.expect_sent();
}

TEST(SingleCopy, TwoThreadsCopyAtOnce) {
  for (int i = 0; i < 50 / test::thinned(5); ++i) {
    CopiedByBoth both;
    std::atomic<bool> is_there = false;
    std::thread sender([&both, &is_there] {
      while (!is_there)
        if (const auto part = both.pair.a->take_to_write(); part.joint) SharedMemoryTransport::write(part);
    });
    both.offer();
    if (i % 2 == 0) std::this_thread::yield();
    while (both.fetch() == Fetched::not_yet) continue;
    EXPECT_EQ(both.into, both.payload);
    is_there = true;
    sender.join();
    both.expect_sent();
  }
}

TEST(SingleCopy, WhatASenderCannotWriteIsRead) {
  CopiedByBoth both;
  both.offer();
  std::thread([&both] {
    forbid(SYS_process_vm_writev);
    SharedMemoryTransport::write(both.pair.a->take_to_write());
  }).join();
  EXPECT_FALSE(both.pair.a->take_to_write().joint) << "it does not try again";
  EXPECT_EQ(both.into.back(), std::byte{0});
  EXPECT_EQ(both.fetch(), Fetched::all);
  both.expect_sent();
}

TEST(SingleCopy, NothingIsWrittenToAPlaceThatHasBeenWithdrawn) {
  for (bool is_released : {true, false}) {
    CopiedByBoth both;
    both.offer();
    const auto last = both.pair.a->take_to_write();
    std::byte then;
    std::thread reader([&] {
      is_released ? both.view().release()
                  : SharedMemoryTransport::withdraw_place(both.view(), now() + 100'000'000);
      then = both.into.back();
    });
    SharedMemoryTransport::write(last);
    reader.join();
    EXPECT_EQ(both.into.back(), then) << "whoever let go has waited for the piece that its sender had taken";
    EXPECT_FALSE(both.pair.a->take_to_write().joint);
    EXPECT_EQ(both.into[0], std::byte{0});
    if (!is_released) {
      EXPECT_EQ(both.fetch(), Fetched::all) << "who was reading reads all";
    }
  }
}

// Its rest goes to the reader, staged; what the sender has written meanwhile does no harm.
TEST(SingleCopy, AReaderThatCannotReadStopsItsSenderAndIsSentACopy) {
  CopiedByBoth both;
  both.offer();
  const auto last = both.pair.a->take_to_write();
  std::thread([&both, &last] {
    forbid(SYS_process_vm_readv);
    EXPECT_EQ(both.fetch(), Fetched::not_yet) << "it is being written to";
    SharedMemoryTransport::write(last);
    EXPECT_EQ(both.fetch(), Fetched::refused);
  }).join();
  SharedMemoryTransport::ask_for_copy(both.view());
  both.view().release();
  EXPECT_FALSE(both.pair.a->take_to_write().joint);
  both.pair.a->progress(both.nothing);
  EXPECT_EQ(both.unfinished, 0u);
  both.pair.b->progress(both.arrived);
  ASSERT_EQ(both.arrived.messages.size(), 2u);
  View& copy = both.arrived.messages[1].second;
  ASSERT_FALSE(copy.is_elsewhere());
  EXPECT_EQ(std::memcmp(copy.data(), both.payload.data(), both.payload.size()), 0);
  copy.release();
}

}  // namespace ddl
