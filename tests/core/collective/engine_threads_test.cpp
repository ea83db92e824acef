// Several threads of one rank in its engine: the helper, and the program's own.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/clock.hpp"
#include "core/collective/engine.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::expect_sum;
using test::shares;
using test::VirtualJob;

// Whether rank 0 slept as often as expected in three calls in a row that rank 1 came to 2 ms late: others may
// want its core in most of them, and then it sleeps, or comes late itself.
bool sleeps_for_a_late_rank(Nanoseconds yields_for, bool (*is_expected)(long times)) {
  VirtualJob job({0, 0}, Bytes{8} << 20, yields_for);
  auto world = job.create(1, {0, 1});
  constexpr int kInARow = 3;
  const Nanoseconds end = now() + 60'000'000'000;
  std::atomic<int> begun = -1;
  std::atomic<int> in_a_row = 0;
  job.each([&](Rank rank) {
    for (int i = 0;; ++i) {
      if (rank == 0) begun = i;
      while (begun < i) std::this_thread::yield();
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      // Both leave the loop after the same call.
      float value = rank == 0 && (in_a_row == kInARow || now() > end) ? 1.f : 0.f;
      rusage before, after;
      ::getrusage(RUSAGE_THREAD, &before);
      job.engine(rank).run(*world[static_cast<std::size_t>(rank)],
                           {&value, &value, 1, DType::float32, Op::max});
      ::getrusage(RUSAGE_THREAD, &after);
      if (value > 0) return;
      if (rank == 0) in_a_row = is_expected(after.ru_nvcsw - before.ru_nvcsw) ? in_a_row + 1 : 0;
    }
  });
  return in_a_row == kInARow;
}

}  // namespace

TEST(Engine, WhoYieldsIsNotWokenForALateRank) {
  EXPECT_TRUE(sleeps_for_a_late_rank(0, [](long times) { return times > 0; }));
  EXPECT_TRUE(sleeps_for_a_late_rank(1'000'000'000, [](long times) { return times == 0; }));
}

// A call that the others have not come to is no reason to wait for them at the end.
TEST(Engine, EndsWhileItsHelperStandsIn) {
  float value = 1;
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  auto left = test::start(job.engine(0), *world[0], {&value, &value, 1, DType::float32, Op::sum});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(left->done());
}

TEST(Engine, TheHelperThreadAdvancesWhatTheProgramDoesNot) {
  VirtualJob job({0, 0, 1});
  auto world = job.create(1, everybody(3));
  std::vector<std::vector<float>> values;
  std::vector<std::unique_ptr<Completion>> operations;
  for (Rank rank = 0; rank < 3; ++rank) values.push_back(shares(rank, 100'000, 2));
  for (Rank rank = 0; rank < 3; ++rank) {
    auto& v = values[static_cast<std::size_t>(rank)];
    operations.push_back(test::start(job.engine(rank), *world[static_cast<std::size_t>(rank)],
                                     {v.data(), v.data(), v.size(), DType::float32, Op::sum}));
  }
  for (Rank rank = 0; rank < 3; ++rank) {
    const Completion& completion = *operations[static_cast<std::size_t>(rank)];
    while (!completion.done()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    expect_sum(values[static_cast<std::size_t>(rank)], everybody(3), 2);
  }
}

TEST(Engine, CallsThatGoOnTogetherShareTheirTime) {
  VirtualJob job({0, 1});
  auto world = job.create(1, {0, 1});
  constexpr int kCalls = 10;
  constexpr Nanoseconds kBefore = 10'000'000'000;
  job.each([&](Rank rank) {
    const auto me = static_cast<std::size_t>(rank);
    const Nanoseconds began = now() - kBefore;
    std::vector<std::vector<float>> values;
    std::vector<std::unique_ptr<Completion>> done;
    for (int i = 0; i < kCalls; ++i) {
      std::vector<float>& v = values.emplace_back(shares(rank, 1000, 2));
      done.push_back(test::start(job.engine(rank), *world[me],
                                 {v.data(), v.data(), v.size(), DType::float32, Op::sum, "sum", began}));
    }
    for (auto& one : done) job.engine(rank).wait(*world[me], *one);
    Counters counters;
    std::vector<WireBytes> wire;
    job.engine(rank).collect(counters, wire);
    const nlohmann::json counted = counters.to_json()["collectives"][0]["engine"];
    EXPECT_EQ(counted["calls"], kCalls);
    EXPECT_GE(counted["seconds"], 10.0);
    EXPECT_LT(counted["seconds"], 10.0 * (kCalls - 1));
  });
}

// It has stood in for long when the program comes back for a moment, and is away again with the call still
// under way.
TEST(Engine, TheHelperThreadStaysAsLongAsACallIsUnderWay) {
  using std::chrono::milliseconds;
  VirtualJob job({0, 1});
  auto world = job.create(1, {0, 1});
  std::vector<float> values[2] = {shares(0, 1000, 2), shares(1, 1000, 2)};
  auto start_on = [&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    return test::start(job.engine(rank), *world[me],
                       {values[me].data(), values[me].data(), 1000, DType::float32, Op::sum});
  };
  std::unique_ptr<Completion> first = start_on(0);
  std::this_thread::sleep_for(milliseconds(80));
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(job.engine(0).test(*first));
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::unique_ptr<Completion> second = start_on(1);
  test::until([&] { return first->done(); }, [] { std::this_thread::sleep_for(milliseconds(1)); });
  ASSERT_TRUE(first->done());
  expect_sum(values[0], {0, 1}, 2);
  test::until([&] { return second->done(); }, [&] { job.engine(1).progress(); });
}

// Large reductions leave the engine's lock: small calls of another communicator and outstanding ones of the
// same go on meanwhile, from other threads.
TEST(Engine, ThreadsWithLargeAndSmallCallsShareTheEngine) {
  VirtualJob job({0, 0});
  auto large = job.create(1, {0, 1}), small = job.create(2, {0, 1});
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    Engine& engine = job.engine(rank);
    std::thread others([&] {
      for (std::uint32_t i = 0; i < 300; ++i) {
        std::vector<float> in = shares(rank, 50, i), out(50);
        engine.run(*small[me], {in.data(), out.data(), 50, DType::float32, Op::sum});
        expect_sum(out, {0, 1}, i);
      }
    });
    for (std::uint32_t i = 0; i < 5; ++i) {
      constexpr Elements kCount = 700'001;
      std::vector<float> in = shares(rank, kCount, i), out(kCount), also(kCount);
      auto first = test::start(engine, *large[me], {in.data(), out.data(), kCount, DType::float32, Op::sum});
      auto second =
          test::start(engine, *large[me], {in.data(), also.data(), kCount, DType::float32, Op::sum});
      engine.wait(*large[me], *second);
      engine.wait(*large[me], *first);
      expect_sum(out, {0, 1}, i);
      expect_sum(also, {0, 1}, i);
    }
    others.join();
  });
  for (Rank rank : {0, 1}) EXPECT_EQ(job.engine(rank).failure(), "");
}

}  // namespace ddl
