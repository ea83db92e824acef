// The server as strangers and careless ranks meet it: raw sockets instead of RendezvousClient.
#include "core/bootstrap/rendezvous_server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/bootstrap/rendezvous_client.hpp"
#include "core/bootstrap/rendezvous_frame.hpp"
#include "core/net/wait.hpp"
#include "tests/support/many_files.hpp"
#include "tests/support/patience.hpp"

namespace ddl::rendezvous {
namespace {

using test::kLong_s;

Socket connect_to_server(const RendezvousId& id) {
  return connect_to({parse_address("127.0.0.1"), id.port}, Timeout(kLong_s));
}

// A connection to the server, spoken on frame by frame.
struct Visitor {
  Socket socket;
  FrameReader reader{1 << 26};

  explicit Visitor(const RendezvousId& id) : socket(connect_to_server(id)) { EXPECT_TRUE(socket.is_open()); }
  void say(PackedFrame frame) {
    FrameWriter writer;
    for (writer.add(frame); !writer.empty();) ASSERT_TRUE(writer.write(socket));
  }
  void send(const void* data, std::size_t bytes) {
    iovec piece = piece_of(data, bytes);
    ASSERT_EQ(socket.send({&piece, 1}), static_cast<long>(bytes));
  }
  /// The next frame; none when the server ends the connection.
  std::optional<Frame> hear() {
    Timeout timeout(kLong_s);
    do {
      FrameReader::State state = reader.read(socket);
      if (state == FrameReader::State::complete) return reader.take();
      if (state != FrameReader::State::waiting) return std::nullopt;
    } while (wait_until(socket, Ready::read, timeout));
    ADD_FAILURE() << "the server is silent";
    return std::nullopt;
  }
  FrameKind join(const RendezvousId& id, Rank rank, Rank size) {
    say(pack_value(Kind::hello, Hello{id.token, id.subgroup, rank, size}));
    auto welcome = hear();
    if (!welcome || welcome->kind != Kind::welcome) return welcome ? welcome->kind : Kind::leave;
    say(pack_frame(Kind::join));
    auto joined = hear();
    return joined ? joined->kind : Kind::leave;
  }
};

RendezvousClient::Blobs exchange_byte(RendezvousClient& rendezvous, int value) {
  std::byte byte{static_cast<std::uint8_t>(value)};
  return rendezvous.exchange({&byte, 1});
}

// A group of two meets on that server and leaves, undisturbed by whoever else is connected.
void expect_two_can_meet(const RendezvousId& id) {
  auto meet = [&](Rank rank) {
    RendezvousClient rendezvous(id, rank, 2, kLong_s);
    for (int round = 0; round < 3; ++round) {
      RendezvousClient::Blobs blobs = exchange_byte(rendezvous, 10 * round + rank);
      ASSERT_EQ(blobs.size(), 2u);
      EXPECT_EQ(blobs[0], std::vector{static_cast<std::byte>(10 * round)});
      EXPECT_EQ(blobs[1], std::vector{static_cast<std::byte>(10 * round + 1)});
    }
  };
  std::thread other([&] { meet(1); });
  meet(0);
  other.join();
}

void wait_until_over(const RendezvousServer& server) {
  for (int i = 0; i < 3000 && !server.is_over(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(server.is_over());
}

}  // namespace

TEST(RendezvousServer, EndsByItselfWhenAllHaveLeft) {
  RendezvousServer server({kLong_s, kLong_s});
  EXPECT_FALSE(server.is_over());
  expect_two_can_meet(server.id());
  wait_until_over(server);
}

TEST(RendezvousServer, EndsByItselfWhenNobodyEverComes) {
  const Nanoseconds began = now();
  RendezvousServer server({0.2, kLong_s});
  wait_until_over(server);
  EXPECT_GE(now() - began, 200'000'000) << "who comes within the time must be let in";
  EXPECT_FALSE(connect_to_server(server.id()).is_open()) << "it still listens";
}

TEST(RendezvousServer, EndsAtOnceWithItsObject) {
  auto server = std::make_unique<RendezvousServer>(RendezvousLimits{kLong_s, kLong_s});
  RendezvousId id = server->id();
  Nanoseconds began = now();
  server.reset();
  EXPECT_LT(now() - began, 10'000'000'000) << "it waited for ranks that never came";
  EXPECT_FALSE(connect_to_server(id).is_open()) << "it still listens";
}

TEST(RendezvousServer, StrangersGetNoAnswerAndDisturbNobody) {
  RendezvousServer server({kLong_s, kLong_s});
  const RendezvousId& id = server.id();
  Visitor silent(id), garbage(id), guessing(id), hasty(id);
  std::string request(5000, 'x');
  garbage.send(request.data(), request.size());
  RendezvousId::Token token = id.token;
  token[3] ^= 1;
  guessing.say(pack_value(Kind::hello, Hello{token, id.subgroup, 0, 2}));
  hasty.say(pack_frame(Kind::blob));  // before hello
  EXPECT_FALSE(garbage.hear());
  EXPECT_FALSE(guessing.hear());
  EXPECT_FALSE(hasty.hear());
  Visitor unsure(id);  // says hello as rank 0 and goes
  unsure.say(pack_value(Kind::hello, Hello{id.token, id.subgroup, 0, 9}));
  EXPECT_EQ(unsure.hear().value().kind, Kind::welcome);
  unsure.socket.close();
  expect_two_can_meet(id);
}

TEST(RendezvousServer, ACrowdOfSilentStrangersDoesNotKeepTheRanksOut) {
  RendezvousServer server({kLong_s, kLong_s});
  const test::ManyFiles files;
  std::vector<Visitor> crowd;
  for (int i = 0, most = files.at_most(10'000); i < most; ++i) crowd.emplace_back(server.id());
  expect_two_can_meet(server.id());
}

// The crowd comes from another process, as it would; here there are 200 descriptors, and no more to be had.
void meet_in_a_crowd_with_few_descriptors() {
  int told[2], may_come[2];
  if (::pipe(told) != 0 || ::pipe(may_come) != 0) std::abort();
  RendezvousServer server({kLong_s, kLong_s});
  const pid_t crowd = ::fork();
  char said;
  if (crowd == 0) {  // it has descriptors
    if (::read(may_come[0], &said, 1) != 1) ::_exit(1);
    std::vector<Visitor> visitors;
    for (int i = 0; i < 900; ++i) visitors.emplace_back(server.id());
    const bool is_out = !visitors.front().hear();  // so most of the others are known, too
    if (!is_out || ::write(told[1], "x", 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  const rlimit few{200, 200};
  ::setrlimit(RLIMIT_NOFILE, &few);
  if (::write(may_come[1], "x", 1) != 1 || ::read(told[0], &said, 1) != 1) std::abort();
  expect_two_can_meet(server.id());
  std::vector<Socket> files;  // the program's own
  while (files.empty() || files.back().is_open())
    files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_GT(files.size(), 100u) << "strangers have what the program needs";
  ::kill(crowd, SIGKILL);
  ::waitpid(crowd, nullptr, 0);
}

TEST(RendezvousServer, ACrowdLeavesDescriptorsWhereFewAreToBeHad) {
  EXPECT_EXIT(
      {
        meet_in_a_crowd_with_few_descriptors();
        ::_exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(RendezvousServer, WhoDoesNotFitIsRefusedAndTheOthersGoOn) {
  RendezvousServer server({kLong_s, kLong_s});
  const RendezvousId& id = server.id();
  Visitor first(id), same(id), beyond(id), other_size(id), second(id);
  EXPECT_EQ(first.join(id, 0, 2), Kind::joined);
  EXPECT_EQ(same.join(id, 0, 2), Kind::refused);
  EXPECT_EQ(beyond.join(id, 2, 2), Kind::refused);
  EXPECT_EQ(other_size.join(id, 1, 3), Kind::refused);
  EXPECT_EQ(second.join(id, 1, 2), Kind::joined);
  first.say(pack_text(Kind::blob, "a"));
  second.say(pack_text(Kind::blob, "b"));
  auto blobs = unpack_all(first.hear().value(), 2);
  ASSERT_TRUE(blobs);
  EXPECT_EQ((*blobs)[1].size(), 1u);
}

TEST(RendezvousServer, OfTwoWelcomedAsTheSameRankOneJoins) {
  RendezvousServer server({kLong_s, kLong_s});
  const RendezvousId& id = server.id();
  Visitor one(id), two(id);
  for (Visitor* visitor : {&one, &two}) {
    visitor->say(pack_value(Kind::hello, Hello{id.token, id.subgroup, 0, 2}));
    EXPECT_EQ(visitor->hear().value().kind, Kind::welcome);
  }
  one.say(pack_frame(Kind::join));
  EXPECT_EQ(one.hear().value().kind, Kind::joined);
  two.say(pack_frame(Kind::join));
  EXPECT_EQ(two.hear().value().kind, Kind::refused);
}

TEST(RendezvousServer, ALostRankIsToldToAllWhoCameAndToThoseWhoComeLater) {
  RendezvousServer server({kLong_s, kLong_s});
  const RendezvousId& id = server.id();
  Visitor waiting(id), dying(id), late(id);
  ASSERT_EQ(waiting.join(id, 0, 3), Kind::joined);
  ASSERT_EQ(dying.join(id, 2, 3), Kind::joined);
  waiting.say(pack_frame(Kind::blob));
  dying.socket.close();
  Frame told = waiting.hear().value();
  EXPECT_EQ(told.kind, Kind::failed);
  EXPECT_NE(told.text().find("rank 2 is gone"), std::string::npos) << told.text();
  late.say(pack_value(Kind::hello, Hello{id.token, id.subgroup, 1, 3}));
  told = late.hear().value();
  EXPECT_EQ(told.kind, Kind::refused);
  EXPECT_NE(told.text().find("rank 2 is gone"), std::string::npos) << told.text();
}

TEST(RendezvousServer, AMemberThatBreaksTheGrammarIsLostAndTooLongABlobBreaksIt) {
  RendezvousServer server({kLong_s, kLong_s});
  const RendezvousId& id = server.id();
  Visitor waiting(id), broken(id);
  ASSERT_EQ(waiting.join(id, 0, 2), Kind::joined);
  ASSERT_EQ(broken.join(id, 1, 2), Kind::joined);
  PackedFrame head = pack_frame(Kind::blob);
  FrameHead claim;
  std::copy(head->begin(), head->end(), reinterpret_cast<std::byte*>(&claim));
  claim.length = kMaxBlob + 1;
  broken.send(&claim, sizeof(claim));
  EXPECT_EQ(waiting.hear().value().kind, Kind::failed);
}

TEST(RendezvousServer, SubgroupsMeetBesideTheWholeGroupAndAfterItAndAWhileLonger) {
  RendezvousServer server({kLong_s, 5});
  const RendezvousId& id = server.id();
  auto keeper = std::make_unique<RendezvousClient>(id.part(0, 0), 0, 1, kLong_s);
  {
    RendezvousClient whole(id, 0, 2, kLong_s);  // waits for the other, while subgroups meet
    expect_two_can_meet(id.part(1, 7));
    expect_two_can_meet(id.part(1, -7));
    expect_two_can_meet(id.part(1, 7).part(1, 7));
    RendezvousClient other(id, 1, 2, kLong_s);
  }
  expect_two_can_meet(id.part(2, 7));
  keeper.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  expect_two_can_meet(id.part(3, 7));
  EXPECT_FALSE(server.is_over());
  wait_until_over(server);
  EXPECT_THROW(RendezvousClient(id.part(3, 7), 0, 2, 1e6), Error)
      << "nobody waits for a server that has ended";
}

TEST(RendezvousServer, WhatBefallsOneSubgroupDoesNotConcernTheOthers) {
  RendezvousServer server({kLong_s, 2});
  const RendezvousId& id = server.id();
  Visitor waiting(id), dying(id), early(id);
  ASSERT_EQ(waiting.join(id.part(1, 0), 0, 2), Kind::joined);
  ASSERT_EQ(dying.join(id.part(1, 0), 1, 2), Kind::joined);
  RendezvousClient whole(id, 0, 1, kLong_s);
  dying.socket.close();
  Frame told = waiting.hear().value();
  EXPECT_EQ(told.kind, Kind::failed);
  ASSERT_EQ(early.join(id.part(2, 0), 1, 2), Kind::joined);  // the other one never comes
  told = early.hear().value();
  EXPECT_NE(told.text().find("rank 0 of 2 did not come within 2 s"), std::string::npos) << told.text();
  EXPECT_EQ(exchange_byte(whole, 3).size(), 1u);
  EXPECT_FALSE(server.is_over());
}

TEST(RendezvousServer, WhoWaitsWhenItEndsLearnsIt) {
  auto server = std::make_unique<RendezvousServer>(RendezvousLimits{kLong_s, kLong_s});
  RendezvousId id = server->id();
  Visitor waiting(id);
  ASSERT_EQ(waiting.join(id, 0, 2), Kind::joined);
  server.reset();
  Frame told = waiting.hear().value();
  EXPECT_EQ(told.kind, Kind::failed);
  EXPECT_NE(told.text().find("has ended the rendezvous"), std::string::npos) << told.text();
}

TEST(RendezvousServer, AForkedChildLeavesItAlone) {
  auto server = std::make_unique<RendezvousServer>(RendezvousLimits{kLong_s, kLong_s});
  pid_t child = ::fork();
  if (child == 0) {
    server.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_two_can_meet(server->id());
}

}  // namespace ddl::rendezvous
