#include "core/bootstrap/rendezvous_client.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <thread>

#include "core/base/error.hpp"
#include "core/bootstrap/rendezvous_server.hpp"
#include "tests/support/patience.hpp"

namespace ddl {
namespace {

using test::kLong_s;

// A rank per thread.
void each(Rank size, const std::function<void(Rank)>& body) {
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::byte> blob(Rank rank, int round, std::size_t bytes) {
  std::vector<std::byte> content(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    content[i] =
        static_cast<std::byte>(i + 3 * static_cast<std::size_t>(rank) + 31 * static_cast<std::size_t>(round));
  return content;
}

// What the body throws, "" when nothing.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

// In a process of its own, whose limit is lowered. The ranks stay, so that their connections do.
TEST(Rendezvous, TheProgramFindsAsManyDescriptorsFreeAsTheRanksTake) {
  constexpr Rank kRanks = 100;  // each has both its ends here
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    RendezvousServer server({kLong_s, kLong_s});
    std::vector<std::unique_ptr<RendezvousClient>> clients;
    for (Rank rank = 0; rank < kRanks; ++rank)
      clients.push_back(std::make_unique<RendezvousClient>(server.id(), rank, kRanks, kLong_s));
    int opened = 0;
    while (opened < kRanks && ::open("/dev/null", O_RDONLY) >= 0) ++opened;
    ::_exit(opened == kRanks ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Rendezvous, EveryRankGetsEverybodysBlobInEveryRound) {
  for (Rank size : {1, 2, 3, 7, 64}) {
    RendezvousServer server({kLong_s, kLong_s});
    const int longer = size < 64 ? 1000 : 50;
    each(size, [&](Rank rank) {
      RendezvousClient rendezvous(server.id(), rank, size, kLong_s);
      for (int round = 0; round < 4; ++round) {
        auto length = [&](Rank of) { return static_cast<std::size_t>(round * (longer * of + 1)); };
        RendezvousClient::Blobs blobs = rendezvous.exchange(blob(rank, round, length(rank)));
        ASSERT_EQ(blobs.size(), static_cast<std::size_t>(size));
        for (Rank of = 0; of < size; ++of)
          EXPECT_EQ(blobs[static_cast<std::size_t>(of)], blob(of, round, length(of)));
      }
    });
  }
}

TEST(Rendezvous, ALargeBlobTravelsAndATooLargeOneIsRefusedBeforeItDoes) {
  RendezvousServer server({kLong_s, kLong_s});
  each(2, [&](Rank rank) {
    RendezvousClient rendezvous(server.id(), rank, 2, kLong_s);
    std::vector<std::byte> largest = blob(rank, 0, rendezvous::kMaxBlob);
    EXPECT_EQ(rendezvous.exchange(largest)[static_cast<std::size_t>(rank)], largest);
    largest.emplace_back();
    EXPECT_TRUE(says(error_of([&] { rendezvous.give(largest); }), "16777216 are possible"));
  });
}

TEST(Rendezvous, GivingDoesNotWaitForTheOthers) {
  RendezvousServer server({kLong_s, kLong_s});
  RendezvousClient zero(server.id(), 0, 2, kLong_s), one(server.id(), 1, 2, kLong_s);
  zero.give(blob(0, 0, 5));
  one.give(blob(1, 0, 5));
  EXPECT_EQ(zero.receive(), one.receive());
}

TEST(Rendezvous, ARankThatNeverComesIsNamedToAllOthers) {
  RendezvousServer server({kLong_s, 0.5});
  each(4, [&](Rank rank) {
    if (rank == 3) return;
    std::string why = error_of([&] { RendezvousClient(server.id(), rank, 4, kLong_s).exchange({}); });
    EXPECT_TRUE(says(why, " 3 of 4 did not come within 0.5 s")) << why;
  });
}

TEST(Rendezvous, ARankThatKeepsOutOfARoundIsNamedToAllOthers) {
  RendezvousServer server({kLong_s, 3});
  std::vector<std::unique_ptr<RendezvousClient>> clients(3);
  each(3, [&](Rank rank) {
    auto& rendezvous = clients[static_cast<std::size_t>(rank)];
    rendezvous = std::make_unique<RendezvousClient>(server.id(), rank, 3, kLong_s);
    std::string why = error_of([&] { rendezvous->exchange({}); });
    EXPECT_EQ(why, "");
    if (rank == 1) return;
    why = error_of([&] { rendezvous->exchange({}); });
    EXPECT_TRUE(says(why, "rank 1 of 3 did not come to round 1")) << why;
  });
}

TEST(Rendezvous, ARankThatDoesNotFitLearnsWhy) {
  RendezvousServer server({kLong_s, kLong_s});
  RendezvousClient zero(server.id(), 0, 2, kLong_s);
  auto join = [&](Rank rank, Rank size) {
    return error_of([&] { RendezvousClient(server.id(), rank, size, kLong_s); });
  };
  EXPECT_TRUE(says(join(0, 2), "a rank 0 already"));
  EXPECT_TRUE(says(join(2, 2), "no rank 2"));
  EXPECT_TRUE(says(join(1, 3), "3 ranks"));
  EXPECT_TRUE(says(join(-1, -1), "not possible"));
  RendezvousClient one(server.id(), 1, 2, kLong_s);
  one.give({});
  EXPECT_EQ(zero.exchange({}).size(), 2u);
}

TEST(Rendezvous, AWrongTokenOrAnAddressWhereNobodyListensEndsAtTheLimitAndNamesTheAddress) {
  auto server = std::make_unique<RendezvousServer>(RendezvousLimits{kLong_s, kLong_s});
  RendezvousId stranger = server->id();
  stranger.token[0] ^= 1;
  auto join = [](const RendezvousId& id) { return error_of([&] { RendezvousClient(id, 0, 1, 0.5); }); };
  std::string why = join(stranger);
  EXPECT_TRUE(says(why, "rank 0 reaches no rendezvous within 0.5 s: 127.0.0.1:")) << why;
  EXPECT_TRUE(says(why, "knows nothing of this unique id")) << why;
  RendezvousId gone = server->id();
  server.reset();
  why = join(gone);
  EXPECT_TRUE(says(why, "127.0.0.1:" + std::to_string(gone.port) + ": Connection refused")) << why;
}

TEST(Rendezvous, OtherAddressesAreTriedWhereTheFirstLeadsNowhere) {
  RendezvousServer server({kLong_s, kLong_s});
  RendezvousId id = server.id();
  id.host ^= 1;  // as from another host: the loopback is not tried by itself
  id.addresses = 2;
  id.address = {parse_address("127.255.255.255"), parse_address("127.0.0.1")};  // a broadcast address first
  RendezvousClient rendezvous(id, 0, 1, kLong_s);
  EXPECT_EQ(rendezvous.exchange({}).size(), 1u);
}

TEST(Rendezvous, APeerThatSaysGoodbyeEarlyFailsThoseWhoWait) {
  RendezvousServer server({kLong_s, kLong_s});
  auto leaving = std::make_unique<RendezvousClient>(server.id(), 1, 2, kLong_s);
  RendezvousClient waiting(server.id(), 0, 2, kLong_s);
  waiting.give({});
  leaving.reset();
  std::string why = error_of([&] { waiting.receive(); });
  EXPECT_TRUE(says(why, "rank 1 left") || says(why, "others have left")) << why;
}

// Forked before anything else is started, the id comes through a pipe.
TEST(Rendezvous, AKilledProcessIsReportedToTheOthers) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  pid_t child = ::fork();
  if (child == 0) {
    RendezvousId id;
    if (::read(pipe_ends[0], &id, sizeof(id)) != static_cast<ssize_t>(sizeof(id))) ::_exit(1);
    RendezvousClient rendezvous(id, 1, 2, kLong_s);
    rendezvous.exchange({});
    ::raise(SIGKILL);
  }
  RendezvousServer server({kLong_s, kLong_s});
  ASSERT_EQ(::write(pipe_ends[1], &server.id(), sizeof(RendezvousId)),
            static_cast<ssize_t>(sizeof(RendezvousId)));
  RendezvousClient rendezvous(server.id(), 0, 2, kLong_s);
  EXPECT_EQ(error_of([&] { rendezvous.exchange({}); }), "");
  std::string why = error_of([&] { rendezvous.exchange({}); });
  EXPECT_TRUE(says(why, "rank 1 is gone")) << why;
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST(Rendezvous, AForkedCopyEndsWithoutAWord) {
  RendezvousServer server({kLong_s, kLong_s});
  auto rendezvous = std::make_unique<RendezvousClient>(server.id(), 0, 1, kLong_s);
  pid_t child = ::fork();
  if (child == 0) {
    rendezvous.reset();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(rendezvous->exchange({}).size(), 1u);
}

TEST(Rendezvous, AServerThatGoesIsNamedToThoseWhoWait) {
  auto server = std::make_unique<RendezvousServer>(RendezvousLimits{kLong_s, kLong_s});
  RendezvousClient rendezvous(server->id(), 0, 2, kLong_s);
  rendezvous.give({});
  server.reset();
  std::string why = error_of([&] { rendezvous.receive(); });
  EXPECT_TRUE(says(why, "has ended the rendezvous")) << why;
}

}  // namespace ddl
