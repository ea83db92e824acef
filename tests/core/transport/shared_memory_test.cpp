#include "core/transport/shared_memory.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "tests/support/memory_ranks.hpp"

namespace ddl {

using test::Kept, test::kStaging, test::MemoryPair, test::message_of, test::peers_of;

namespace {

// The block that a payload is lent from.
const std::byte* block_of(const View& view) { return static_cast<const std::byte*>(view.token()); }

}  // namespace

TEST(SharedMemory, ABlockIsBusyUntilItsReaderReleasesIt) {
  MemoryPair pair;
  std::vector<std::byte> payload(1000, std::byte{42}), other(1000, std::byte{7});
  const Rank to[] = {1};
  EXPECT_TRUE(pair.a->send(message_of(payload, to)));
  EXPECT_TRUE(pair.a->send(message_of(other, to)));
  Kept handler;
  EXPECT_TRUE(pair.b->progress(handler));
  ASSERT_EQ(handler.messages.size(), 2u);
  View& first = handler.messages[0].second;
  EXPECT_EQ(std::memcmp(first.data(), payload.data(), payload.size()), 0) << "it was written over";
  const std::byte* block = block_of(first);
  EXPECT_FALSE(StagingPool::is_free(block));
  first.release();
  EXPECT_TRUE(StagingPool::is_free(block));
  for (int more = 0; more < 20; ++more) pair.a->send(message_of(other, to));
  EXPECT_FALSE(StagingPool::is_free(block)) << "what was released is used again";
}

TEST(SharedMemory, ABlockComesBackWithTheAnswerOfItsLastReader) {
  MemoryPair pair;
  std::vector<std::byte> payload(1000, std::byte{42});
  const Rank to[] = {1}, back[] = {0};
  ASSERT_TRUE(pair.a->send(message_of(payload, to)));
  Kept asked, answered;
  pair.b->progress(asked);
  View& question = asked.messages[0].second;
  std::byte* block = SharedMemoryTransport::block_to_return(question);
  ASSERT_NE(block, nullptr);
  Outgoing answer = message_of({SharedMemoryTransport::payload_of(block), payload.size()}, back);
  answer.block = block;
  answer.reuse = Reuse::by_receiver;
  ASSERT_TRUE(pair.b->claim(answer));
  std::memset(SharedMemoryTransport::payload_of(block), 43, payload.size());
  question.give_up();
  pair.b->post(answer);

  pair.a->progress(answered);
  View& result = answered.messages[0].second;
  EXPECT_EQ(result.data(), SharedMemoryTransport::payload_of(block));
  EXPECT_EQ(*static_cast<const unsigned char*>(result.data()), 43);
  EXPECT_FALSE(StagingPool::is_free(block)) << "its owner has not read the answer";
  EXPECT_EQ(SharedMemoryTransport::block_to_return(result), nullptr);
  result.release();
  EXPECT_TRUE(StagingPool::is_free(block));
}

TEST(SharedMemory, ABlockThatOthersReadIsNotSentBack) {
  std::vector<LocalPeer> peers;
  for (Rank rank : {0, 1, 2})
    peers.push_back(
        {rank, std::make_shared<Region>(Region::create(3, StagingPool::region_bytes(kStaging), 5))});
  SharedMemoryTransport sender(peers, 0, kStaging), first(peers, 1, kStaging), second(peers, 2, kStaging);
  std::vector<std::byte> payload(1000);
  const Rank to[] = {1, 2};
  ASSERT_TRUE(sender.send(message_of(payload, to)));
  Kept one, other;
  first.progress(one);
  second.progress(other);
  EXPECT_EQ(SharedMemoryTransport::block_to_return(one.messages[0].second), nullptr);
  other.messages[0].second.release();
  EXPECT_NE(SharedMemoryTransport::block_to_return(one.messages[0].second), nullptr);
}

TEST(SharedMemory, WhatIsSentAtOnceIsNotWrittenOverBeforeAllHaveTakenIt) {
  std::vector<LocalPeer> peers = peers_of(3);
  SharedMemoryTransport sender(peers, 0, kStaging), quick(peers, 1, kStaging), slow(peers, 2, kStaging);
  const Rank to[] = {1, 2};
  auto payload = [](int number) { return std::vector<std::byte>(1000, static_cast<std::byte>(number)); };
  for (int number = 0; number < 40; ++number) {
    ASSERT_TRUE(sender.send_at_once(message_of(payload(number), to)));
    SharedMemoryTransport::Arrived first = quick.first_from(quick.peer_of(0));
    ASSERT_NE(first.header, nullptr);
    EXPECT_EQ(std::memcmp(first.payload, payload(number).data(), 1000), 0);
    quick.drop_first(quick.peer_of(0), first.block);
  }
  for (int number = 0; number < 40; ++number) {
    SharedMemoryTransport::Arrived first = slow.first_from(slow.peer_of(0));
    ASSERT_NE(first.header, nullptr);
    EXPECT_EQ(std::memcmp(first.payload, payload(number).data(), 1000), 0) << number << " was written over";
    slow.drop_first(slow.peer_of(0), first.block);
  }
}

// Who takes it like any other message may keep it for as long as it likes.
TEST(SharedMemory, WhatIsSentAtOnceIsDeliveredToWhoDoesNotLookForIt) {
  MemoryPair pair;
  const Rank to[] = {1};
  Kept handler;
  for (int number = 0; number < 40; ++number) {
    const std::vector<std::byte> payload(1000, static_cast<std::byte>(number));
    ASSERT_TRUE(pair.a->send_at_once(message_of(payload, to)));
    pair.b->progress(handler);
  }
  ASSERT_EQ(handler.messages.size(), 40u);
  for (int number = 0; number < 40; ++number) {
    View& view = handler.messages[static_cast<std::size_t>(number)].second;
    EXPECT_EQ(*static_cast<const unsigned char*>(view.data()), number);
    view.release();
  }
}

// Up to that limit it lies in the mailbox, else in a block.
TEST(SharedMemory, APayloadOfAnyLengthArrivesOnHostsOfFewAndOfManyRanks) {
  for (int ranks : {2, Mailbox::kFewRanks, Mailbox::kFewRanks + 1}) {
    std::vector<LocalPeer> peers = peers_of(ranks);
    SharedMemoryTransport sender(peers, 0, kStaging), receiver(peers, ranks - 1, kStaging);
    const Rank to[] = {ranks - 1};
    for (std::size_t bytes = 1; bytes <= 2 * View::kInline; ++bytes) {
      std::vector<std::byte> payload(bytes);
      for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(bytes + 7 * i);
      ASSERT_TRUE(sender.send(message_of(payload, to)));
      Kept handler;
      receiver.progress(handler);
      ASSERT_EQ(handler.messages.size(), 1u);
      View& view = handler.messages[0].second;
      ASSERT_EQ(view.bytes(), bytes);
      EXPECT_EQ(std::memcmp(view.data(), payload.data(), bytes), 0)
          << bytes << " bytes, " << ranks << " ranks";
      EXPECT_EQ(view.token() != nullptr, bytes > sender.most_inline());
      view.release();
    }
  }
}

TEST(SharedMemory, AFullMailboxRefusesAndLosesNothing) {
  MemoryPair pair;
  const Rank to[] = {1};
  std::uint32_t sent = 0;
  while (true) {
    std::byte number{static_cast<unsigned char>(sent)};
    if (!pair.a->send(message_of({&number, 1}, to))) break;
    ++sent;
  }
  EXPECT_EQ(sent, Mailbox::kEntries);
  Kept handler;
  pair.b->progress(handler);
  ASSERT_EQ(handler.messages.size(), sent);
  for (std::uint32_t i = 0; i < sent; ++i)
    EXPECT_EQ(*static_cast<const unsigned char*>(handler.messages[i].second.data()), i % 256);
  EXPECT_TRUE(pair.a->send(message_of({}, to)));
}

TEST(SharedMemory, ASleeperIsWokenByAMessage) {
  MemoryPair pair;
  const Rank to[] = {1};
  std::atomic<bool> asleep{false};
  Nanoseconds slept = 0;
  std::thread sleeper([&] {
    std::uint32_t announced = pair.b->announce_sleep();
    asleep = true;
    Nanoseconds began = now();
    pair.b->sleep(announced, 60'000'000'000);
    slept = now() - began;
  });
  while (!asleep) std::this_thread::yield();
  pair.a->send(message_of({}, to));
  sleeper.join();
  EXPECT_LT(slept, 30'000'000'000) << "it slept until its time was over";
}

TEST(SharedMemory, WhoSleepsOnADescriptorTooIsWokenByEither) {
  MemoryPair pair;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pair.open_bells();
  const Rank to[] = {1};
  for (bool by_message : {true, false}) {
    std::uint32_t announced = pair.b->announce_sleep();
    if (by_message) {
      pair.a->send(message_of({}, to));
    } else {
      ASSERT_EQ(::write(ends[1], "", 1), 1);
    }
    Nanoseconds began = now();
    pair.b->sleep(announced, 60'000'000'000, ends[0]);
    EXPECT_LT(now() - began, 30'000'000'000) << "it slept until its time was over";
  }
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1) << "what the descriptor brought is its owner's to read";
  pair.a->send(message_of({}, to));
  Nanoseconds began = now();
  pair.b->sleep(pair.b->announce_sleep(), 1'000'000, ends[0]);
  EXPECT_GE(now() - began, 1'000'000) << "nobody rings for a rank that is awake, and old rings are silenced";
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(SharedMemory, AKeptBlockIsSentFromAgainAndComesBackWhenAllHaveLeftIt) {
  MemoryPair pair;
  std::vector<std::byte> payload(1000, std::byte{42});
  const Rank to[] = {1};
  Outgoing message = message_of(payload, to);
  message.block = pair.a->keep_block(payload.size(), 2);
  message.reuse = Reuse::by_agreement;
  EXPECT_TRUE(pair.a->send(message));
  EXPECT_TRUE(pair.a->send(message));
  EXPECT_TRUE(pair.b->has_arrived());
  Kept handler;
  pair.b->progress(handler);
  EXPECT_FALSE(pair.b->has_arrived());
  ASSERT_EQ(handler.messages.size(), 2u);
  View& last = handler.messages[1].second;
  EXPECT_EQ(std::memcmp(last.data(), payload.data(), payload.size()), 0);
  Bytes offset = pair.b->kept_block_of(last);
  EXPECT_EQ(offset, pair.a->offset_of(message.block));
  last.release();
  EXPECT_FALSE(StagingPool::is_free(message.block)) << "nobody counts its readers";
  pair.b->leave_block(0, offset);
  EXPECT_FALSE(StagingPool::is_free(message.block)) << "its owner may still send from it";
  pair.a->leave_block(0, offset);
  EXPECT_TRUE(StagingPool::is_free(message.block));
}

TEST(Region, AnotherProcessAttachesItByPidAndNonceOnly) {
  Region region = Region::create(1, 4096, 77);
  *region.at(region.staging_offset(1)) = std::byte{9};
  pid_t parent = ::getpid();
  pid_t child = ::fork();
  if (child == 0) {
    auto right = Region::attach(parent, region.fd(), 77);
    auto wrong = Region::attach(parent, region.fd(), 78);
    ::_exit(right && !wrong && *right->at(right->staging_offset(1)) == std::byte{9} ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(Region::attach(parent, 9999, 77));
}

TEST(Region, ABellIsRungByAnotherProcessAndOutlivesItsOwner) {
  auto region = std::make_unique<Region>(Region::create(1, 4096, 77));
  region->open_bell();
  auto peer = Region::attach(::getpid(), region->fd(), 77, region->bell());
  ASSERT_TRUE(peer && peer->has_bell());
  pollfd bell{region->bell(), POLLIN, 0};
  EXPECT_EQ(::poll(&bell, 1, 0), 0);
  peer->ring_bell();
  EXPECT_EQ(::poll(&bell, 1, 0), 1);
  region->silence_bell();
  EXPECT_EQ(::poll(&bell, 1, 0), 0);
  EXPECT_FALSE(Region::attach(::getpid(), region->fd(), 77, 9999));
  region.reset();
  peer->ring_bell();  // would kill us if the pipe had no reader
}

}  // namespace ddl
