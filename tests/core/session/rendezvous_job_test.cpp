// Whole jobs over a rendezvous, as a front without MPI drives them: ranks as threads of one process, and as
// processes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <thread>

#include "core/bootstrap/rendezvous_server.hpp"
#include "core/session/session_communicator.hpp"
#include "tests/support/rendezvous_member.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::kLong_s;

struct Member : test::RendezvousMember {
  using RendezvousMember::RendezvousMember;

  /// How many of `count` elements are not the sum of (rank + 1) * (i % 16).
  std::size_t wrong_sums(Elements count) {
    std::vector<float> in(count), out(count, -1);
    for (Elements i = 0; i < count; ++i)
      in[i] = static_cast<float>((static_cast<Elements>(job.rank()) + 1) * (i % 16));
    Call call{in.data(), out.data(), count, DType::float32, Op::sum};
    job.engine().run(*world, call);
    auto ranks = static_cast<Elements>(job.size());
    std::size_t wrong = 0;
    for (Elements i = 0; i < count; ++i)
      wrong += out[i] != static_cast<float>(ranks * (ranks + 1) / 2 * (i % 16));
    return wrong;
  }
};

void run_as_threads(Rank size, const Env& env, int hosts) {
  RendezvousServer server({kLong_s, kLong_s});
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Member member(server.id(), rank, size, env);
      EXPECT_EQ(member.job.job_map().hosts(), hosts);
      for (Elements count : {0, 1, 7, 1000, 70'001, 1'000'000}) EXPECT_EQ(member.wrong_sums(count), 0u);
      EXPECT_EQ(member.job.engine().failure(), "");
    });
  for (std::thread& thread : threads) thread.join();
}

// One rank's end of a communicator of all of them.
struct Calls {
  explicit Calls(Member& of)
      : member(of), communicator(of.job, of.all_of(of.job.fresh_id()).front(), plans(of)) {}

  static std::shared_ptr<PlanStore> plans(Member& of) {
    std::vector<Rank> members(static_cast<std::size_t>(of.job.size()));
    std::iota(members.begin(), members.end(), 0);
    return of.job.plans_of(members, of.job.rank());
  }

  Member& member;
  SessionCommunicator communicator;
};

void each(Rank size, const Env& env, const std::function<void(Calls&)>& body) {
  RendezvousServer server({kLong_s, kLong_s});
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Member member(server.id(), rank, size, env);
      Calls calls(member);
      body(calls);
      member.all_of(rank);  // nobody leaves before all are done
    });
  for (std::thread& thread : threads) thread.join();
}

using What = Outcome::What;

Env env_with(const std::vector<std::string>& entries) { return parse_env(entries); }

}  // namespace

TEST(RendezvousJob, RanksThatAreThreadsAllReduceThroughSharedMemory) {
  for (Rank size : {1, 2, 3}) run_as_threads(size, env_with({}), 1);
}

TEST(RendezvousJob, RanksThatAreThreadsOfTwoHostsAllReduceOverTheWireToo) {
  run_as_threads(3, env_with({"DDL_FAKE_HOSTS=2,1", "DDL_WIRE=tcp"}), 2);
}

TEST(RendezvousJob, EachSessionOfAProcessHasAFailureOfItsOwn) {
  RendezvousServer one({kLong_s, kLong_s}), other({kLong_s, kLong_s});
  Member failing(one.id(), 0, 1, env_with({})), well(other.id(), 0, 1, env_with({}));
  failing.job.fail("the first cause");
  failing.job.fail("another");
  EXPECT_EQ(failing.job.failure(), "the first cause");
  EXPECT_TRUE(failing.job.engine().failed());
  EXPECT_EQ(well.job.failure(), "");
  EXPECT_EQ(well.wrong_sums(1000), 0u);
}

// Each rank makes them from several threads, so that no two ranks make them in one order.
TEST(SessionCommunicator, CallsMeetThoseOfTheSameKey) {
  constexpr std::uint64_t kKeys = 80, kThreads = 4;
  for (const char* hosts : {"3", "2,1"})
    each(3, env_with({"DDL_FAKE_HOSTS=" + std::string(hosts), "DDL_WIRE=tcp"}), [&](Calls& calls) {
      const auto rank = static_cast<std::uint64_t>(calls.member.job.rank());
      auto make = [&](std::uint64_t first) {
        for (std::uint64_t key = first; key < kKeys; key += kThreads) {
          const std::size_t count = key % 7 == 0 ? 50'000 : 3;  // sizes that take other ways
          std::vector<std::int64_t> values(count, static_cast<std::int64_t>(1000 * key + rank));
          Call call{values.data(), values.data(), count, DType::int64, Op::sum, "keyed"};
          EXPECT_EQ(calls.communicator.run(call, key).what, What::done);
          EXPECT_EQ(values, std::vector<std::int64_t>(count, static_cast<std::int64_t>(3000 * key + 3)))
              << key;
        }
      };
      std::vector<std::thread> threads;
      for (std::uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(make, (i + rank) % kThreads);
      for (std::thread& thread : threads) thread.join();
    });
}

// As of a program whose threads have a range of keys each.
TEST(SessionCommunicator, KeysThatLieFarApartMayBeMadeInAnyOrder) {
  constexpr std::uint64_t kKeys = 300, kThreads = 4;
  each(2, env_with({}), [&](Calls& calls) {
    auto make = [&](std::uint64_t range) {
      for (std::uint64_t key = 0; key < kKeys; ++key) {
        std::int64_t value = static_cast<std::int64_t>(key + range);
        const Call call{&value, &value, 1, DType::int64, Op::sum, "keyed"};
        ASSERT_EQ(calls.communicator.run(call, range << 15 | key).what, What::done);
        ASSERT_EQ(value, static_cast<std::int64_t>(2 * (key + range)));
      }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(make, i);
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(SessionCommunicator, AKeyMayComeAgain) {
  each(3, env_with({"DDL_FAKE_HOSTS=2,1", "DDL_WIRE=tcp"}), [&](Calls& calls) {
    for (std::int64_t i = 0; i < 300; ++i) {
      std::int64_t value = i + calls.member.job.rank();
      ASSERT_EQ(calls.communicator.run({&value, &value, 1, DType::int64, Op::sum, "keyed"}, 7).what,
                What::done);
      ASSERT_EQ(value, 3 * i + 3);
    }
  });
}

TEST(SessionCommunicator, OfNonblockingCallsEachEndIsToldOnceToItsOwner) {
  constexpr std::size_t kCalls = 50;
  each(2, env_with({}), [&](Calls& calls) {
    std::vector<std::vector<float>> values(kCalls, std::vector<float>(2000, 1));
    std::array<int, kCalls> told{};
    for (std::size_t i = 0; i < kCalls; ++i) {
      Call call{values[i].data(), values[i].data(), values[i].size(), DType::float32, Op::sum, "x"};
      SessionCall* started = nullptr;
      told[i] += calls.communicator.start(call, &told[i], started).what == What::done;
    }
    auto all = [&] { return std::count(told.begin(), told.end(), 1) == static_cast<long>(kCalls); };
    test::until(all, [&] {
      calls.member.job.poll();
      while (auto ended = calls.member.job.next_ended()) {
        EXPECT_TRUE(ended->is_right);
        ++*static_cast<int*>(ended->owner);
      }
    });
    EXPECT_TRUE(all());
    for (const auto& one : values) EXPECT_EQ(one, std::vector<float>(2000, 2));
  });
}

// One that is waited for is not told of again; which one it is, its owner says.
TEST(SessionCommunicator, AnOwnerThatWaitsIsToldOfTheEndThereAlone) {
  each(3, env_with({}), [&](Calls& calls) {
    Session& session = calls.member.job;
    for (int round = 0; round < 200; ++round) {
      std::vector<float> values(round % 2 ? 20000 : 1, 1), others(2000, 1);
      int mine = 0, other = 0;
      SessionCall *started = nullptr, *of_other = nullptr;
      Call second{others.data(), others.data(), others.size(), DType::float32, Op::sum, "x"};
      other += calls.communicator.start(second, &other, of_other).what == What::done;
      Call first{values.data(), values.data(), values.size(), DType::float32, Op::sum, "x"};
      mine += calls.communicator.start(first, &mine, started).what == What::done;
      if (started && of_other) {
        EXPECT_FALSE(session.wait(*started, &other));
      }
      if (started) {
        if (auto ended = session.wait(*started, &mine)) {
          EXPECT_EQ(ended->owner, &mine);
          EXPECT_TRUE(ended->is_right);
          EXPECT_EQ(values, std::vector<float>(values.size(), 3));
          ++mine;
          EXPECT_FALSE(session.wait(*started, &mine));
        }
      }
      test::until([&] { return mine == 1 && other == 1; },
                  [&] {
                    session.poll();
                    while (auto ended = session.next_ended()) ++*static_cast<int*>(ended->owner);
                  });
      EXPECT_EQ(mine, 1);
      EXPECT_EQ(other, 1);
    }
  });
}

TEST(SessionCommunicator, AfterAFailureAllThatWereUnderWayHaveEndedWrong) {
  each(2, env_with({}), [](Calls& calls) {
    if (calls.member.job.rank() == 1) return;  // it makes none of them
    std::vector<float> values(2000, 1);
    std::array<int, 5> told{};
    SessionCall* started = nullptr;
    for (int& one : told) {
      Call call{values.data(), values.data(), values.size(), DType::float32, Op::sum, "x"};
      EXPECT_EQ(calls.communicator.start(call, &one, started).what, What::under_way);
    }
    EXPECT_FALSE(calls.member.job.next_ended());
    calls.member.job.fail("it has failed");
    auto last = calls.member.job.wait(*started, &told[4]);
    ASSERT_TRUE(last);
    EXPECT_FALSE(last->is_right);
    ++told[4];
    while (auto ended = calls.member.job.next_ended()) {
      EXPECT_FALSE(ended->is_right);
      ++*static_cast<int*>(ended->owner);
    }
    EXPECT_EQ(told, (std::array<int, 5>{1, 1, 1, 1, 1}));
    Call call{values.data(), values.data(), values.size(), DType::float32, Op::sum, "x"};
    EXPECT_EQ(calls.communicator.start(call, nullptr, started).what, What::failed);
    EXPECT_EQ(calls.communicator.run(call).what, What::failed);
    EXPECT_EQ(calls.communicator.run(call, 7).what, What::failed);
  });
}

// Forked before anything else is started: the id comes through a pipe, as a program would hand it around.
TEST(RendezvousJob, RanksThatAreProcessesAllReduce) {
  constexpr Rank kSize = 3;
  std::array<int, 2> line{};
  ASSERT_EQ(::pipe(line.data()), 0);
  auto run = [](const RendezvousId& id, Rank rank) {
    Member member(id, rank, kSize, env_with({}));
    return member.wrong_sums(70'001) + member.wrong_sums(5);
  };
  std::vector<pid_t> children;
  for (Rank rank = 1; rank < kSize; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    RendezvousId id;
    if (::read(line[0], &id, sizeof(id)) != static_cast<ssize_t>(sizeof(id))) ::_exit(2);
    std::size_t wrong = run(id, rank);
    ::_exit(wrong == 0 && !::testing::Test::HasFailure() ? 0 : 1);
  }
  RendezvousServer server({kLong_s, kLong_s});
  for (std::size_t i = 0; i < children.size(); ++i)
    ASSERT_EQ(::write(line[1], &server.id(), sizeof(RendezvousId)),
              static_cast<ssize_t>(sizeof(RendezvousId)));
  EXPECT_EQ(run(server.id(), 0), 0u);
  for (pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (int end : line) ::close(end);
}

}  // namespace ddl
