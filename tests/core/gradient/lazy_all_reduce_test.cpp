#include "core/gradient/lazy_all_reduce.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/lazy_job.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::expect_sum;
using test::LazyJob;
using test::shares;
using test::sum_of;

constexpr Bytes kPlenty = 1 << 20;

// Some calls of one rank, each with its own buffer.
struct Calls {
  std::vector<std::vector<float>> values;
  std::vector<std::unique_ptr<Completion>> done;

  void start(LazyAllReduce& lazy, Rank rank, Elements count) {
    const auto salt = static_cast<std::uint32_t>(values.size());
    values.push_back(shares(rank, count, salt));
    done.push_back(std::make_unique<Completion>());
    lazy.start(sum_of(values.back().data(), values.back().data(), count), *done.back());
  }
  void expect_right(Rank ranks) const {
    for (std::size_t i = 0; i < values.size(); ++i)
      expect_sum(values[i], everybody(ranks), static_cast<std::uint32_t>(i));
  }
};

nlohmann::json counted(Engine& engine) {
  Counters counters;
  std::vector<WireBytes> wire;
  engine.collect(counters, wire);
  return counters.to_json();
}

void until_done(LazyJob& job, const std::vector<Calls>& calls, std::size_t call) {
  auto all_done = [&] {
    return std::all_of(calls.begin(), calls.end(), [&](const Calls& one) { return one.done[call]->done(); });
  };
  test::until(all_done, [&] {
    for (Rank rank = 0; rank < job.job.size(); ++rank) job.job.engine(rank).progress();
  });
  for (const Calls& one : calls) ASSERT_TRUE(one.done[call]->done()) << "call " << call;
}

}  // namespace

TEST(LazyAllReduce, WhatAllHaveStartedIsOneOperation) {
  LazyJob job({0, 0, 1});
  LazyJob::Comm world = job.create(1, kPlenty);
  std::vector<Calls> calls(3);
  job.job.each([&](Rank rank) {
    const auto me = static_cast<std::size_t>(rank);
    // A helper thread that stands in for a slow one may already cut some off: no more of them than calls.
    for (int i = 0; i < 20; ++i) calls[me].start(*world.lazy[me], rank, 100);
    for (auto& done : calls[me].done) job.job.engine(rank).wait(*world.plain[me], *done);
    calls[me].expect_right(3);
  });
  const nlohmann::json report = counted(job.job.engine(1));
  ASSERT_FALSE(report["fused"].empty()) << report.dump();
  const nlohmann::json fused = report["fused"][0];
  EXPECT_EQ(fused["collective"], "sum");
  EXPECT_EQ(fused["class"], "float32, sum");
  EXPECT_LE(fused["batches"], 10);
  EXPECT_EQ(report["collectives"][0]["engine"]["calls"], 20);
  EXPECT_EQ(report["collectives"][0]["engine"]["bytes"], 8000);
}

// The case that rules out every choice by what one rank alone has started.
TEST(LazyAllReduce, ARankMayWaitForTheThirdCallBeforeItStartsTheFourth) {
  LazyJob job({0, 1});
  LazyJob::Comm world = job.create(1, kPlenty);
  std::vector<Calls> calls(2);
  for (int i = 0; i < 5; ++i) calls[0].start(*world.lazy[0], 0, 10);
  for (int i = 0; i < 3; ++i) calls[1].start(*world.lazy[1], 1, 10);
  for (std::size_t i = 0; i < 3; ++i) until_done(job, calls, i);
  EXPECT_FALSE(calls[0].done[3]->done());
  for (int i = 3; i < 5; ++i) calls[1].start(*world.lazy[1], 1, 10);
  for (std::size_t i = 3; i < 5; ++i) until_done(job, calls, i);
  for (const Calls& one : calls) one.expect_right(2);
}

TEST(LazyAllReduce, ACallThatNobodyWaitsForIsDoneWhileTheProgramIsAway) {
  LazyJob job({0, 0, 1});
  LazyJob::Comm world = job.create(1, kPlenty);
  std::vector<Calls> calls(3);
  for (Rank rank = 0; rank < 3; ++rank)
    calls[static_cast<std::size_t>(rank)].start(*world.lazy[static_cast<std::size_t>(rank)], rank, 1000);
  for (Calls& one : calls) {
    test::until([&] { return one.done[0]->done(); },
                [] { std::this_thread::sleep_for(std::chrono::microseconds(100)); });
    ASSERT_TRUE(one.done[0]->done());
    one.expect_right(3);
  }
}

// Rank 1 knows of no call, and rank 0 has more than the threshold.
TEST(LazyAllReduce, StartingNeverWaits) {
  LazyJob job({0, 1});
  LazyJob::Comm world = job.create(1, 4096);
  std::vector<Calls> calls(2);
  for (int i = 0; i < 100; ++i) calls[0].start(*world.lazy[0], 0, 1000);
  EXPECT_FALSE(calls[0].done[0]->done());
  for (int i = 0; i < 100; ++i) calls[1].start(*world.lazy[1], 1, 1000);
  for (std::size_t i = 0; i < 100; ++i) until_done(job, calls, i);
  for (const Calls& one : calls) one.expect_right(2);
}

// Where memory for one more batch must wait for an earlier one to end.
TEST(LazyAllReduce, MemoryIsBounded) {
  LazyJob job({0, 1});
  LazyJob::Comm world = job.create(1, kPlenty);
  std::vector<Calls> calls(2);
  constexpr int kCalls = 400;
  constexpr Elements kCount = 16'000;  // together 26 MB
  job.job.each([&](Rank rank) {
    const auto me = static_cast<std::size_t>(rank);
    for (int i = 0; i < kCalls; ++i) calls[me].start(*world.lazy[me], rank, kCount);
    for (auto& done : calls[me].done) job.job.engine(rank).wait(*world.plain[me], *done);
    calls[me].expect_right(2);
    EXPECT_LE(job.memory[me].most_taken(), Bytes{4} << 20);
  });
}

TEST(LazyAllReduce, WhatGoesByItself) {
  LazyJob job({0, 1});
  LazyJob::Comm world = job.create(1, 4096);
  LazyAllReduce& lazy = *world.lazy[0];
  std::vector<float> buffer(4096);
  Call call = sum_of(buffer.data(), buffer.data(), 100);
  EXPECT_TRUE(lazy.takes(call));
  call.kind = Kind::broadcast;
  EXPECT_FALSE(lazy.takes(call));
  call = sum_of(buffer.data(), buffer.data(), 1024);
  EXPECT_FALSE(lazy.takes(call)) << "as large as the threshold";
  call = sum_of(buffer.data(), buffer.data(), 0);
  EXPECT_FALSE(lazy.takes(call));
  call = sum_of(buffer.data(), buffer.data(), 100);
  call.variant = 1;
  EXPECT_FALSE(lazy.takes(call)) << "a barrier";
  call = sum_of(buffer.data(), buffer.data(), 100);
  call.own = {[](void*, const void*, void*, Elements) {}, nullptr};
  EXPECT_FALSE(lazy.takes(call)) << "an operation of the program's own";
}

// What is small stays exact, in company too; what is not shares no scale with others.
TEST(LazyAllReduce, TheWireTypeIsDecidedByEachCallsOwnSize) {
  LazyJob job({0, 1});
  LazyJob::Comm world = job.create(1, kPlenty, {WireType::int8, 4000});
  job.job.each([&](Rank rank) {
    const auto me = static_cast<std::size_t>(rank);
    std::vector<std::vector<float>> exact(50, std::vector<float>(100, 1.0f + 0x1p-20f)), tiny, huge;
    for (int i = 0; i < 5; ++i) tiny.emplace_back(1001, 0x1p-60f), huge.emplace_back(1001, 0x1p60f);
    std::vector<std::unique_ptr<Completion>> done;
    auto start = [&](std::vector<float>& values) {
      done.push_back(std::make_unique<Completion>());
      world.lazy[me]->start(sum_of(values.data(), values.data(), values.size()), *done.back());
    };
    for (std::size_t i = 0; i < exact.size(); ++i) {
      start(exact[i]);
      if (i < 5) start(tiny[i]), start(huge[i]);
    }
    for (auto& one : done) job.job.engine(rank).wait(*world.plain[me], *one);
    for (auto& values : exact)
      for (float value : values) ASSERT_EQ(value, 2 * (1.0f + 0x1p-20f));
    for (std::size_t i = 0; i < 5; ++i) {
      for (float value : tiny[i]) ASSERT_EQ(value, 0x1p-59f) << "lost beside a huge one";
      for (float value : huge[i]) ASSERT_EQ(value, 0x1p61f);
    }
  });
}

TEST(LazyAllReduce, RanksThatMakeDifferentCallsAreTold) {
  LazyJob job({0, 1});
  LazyJob::Comm world = job.create(1, kPlenty);
  std::vector<std::unique_ptr<Completion>> done;
  std::vector<float> buffer(100);
  for (Rank rank : {0, 1})
    for (Elements count : {10, rank == 0 ? 20 : 21}) {
      done.push_back(std::make_unique<Completion>());
      world.lazy[static_cast<std::size_t>(rank)]->start(sum_of(buffer.data(), buffer.data(), count),
                                                        *done.back());
    }
  test::until([&] { return job.job.engine(0).failed() || job.job.engine(1).failed(); },
              [&] { job.job.engine(0).progress(), job.job.engine(1).progress(); });
  const std::string failure = job.job.engine(0).failure() + job.job.engine(1).failure();
  EXPECT_NE(failure.find("do not make the same call"), std::string::npos) << failure;
}

TEST(LazyAllReduce, AProgramThatWaitsLongHearsOfItsOwnCallAndCommunicator) {
  LazyJob job({0, 1, 1});
  LazyJob::Comm world = job.create(7, kPlenty);
  std::vector<Calls> calls(3);
  for (Rank rank : {0, 1})
    calls[static_cast<std::size_t>(rank)].start(*world.lazy[static_cast<std::size_t>(rank)], rank, 1000);
  for (int i = 0; i < 100; ++i)
    for (Rank rank : {0, 1}) job.job.engine(rank).progress();
  const std::vector<LongCall> waiting = job.job.engine(0).calls_longer_than(0);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].comm, 7u);
  EXPECT_EQ(waiting[0].name, CallName("sum"));
  EXPECT_EQ(waiting[0].members, everybody(3));
  EXPECT_TRUE(waiting[0].needs_all && waiting[0].goes_on);
  EXPECT_FALSE(waiting[0].waits_for.empty());
  calls[2].start(*world.lazy[2], 2, 1000);
  until_done(job, calls, 0);
  EXPECT_TRUE(job.job.engine(0).calls_longer_than(0).empty());
}

// A completion that the engine will never end is no longer touched when the communicator is gone.
TEST(LazyAllReduce, AFailureLeavesNothingBehind) {
  LazyJob job({0, 1});
  LazyJob::Comm world = job.create(1, kPlenty);
  std::vector<Calls> calls(1);
  for (int i = 0; i < 10; ++i) calls[0].start(*world.lazy[0], 0, 1000);
  job.job.engine(0).fail("a peer is gone");
  EXPECT_TRUE(job.job.engine(0).test(*calls[0].done[0]));
  EXPECT_FALSE(calls[0].done[0]->done());
  world.lazy.clear();
}

}  // namespace ddl
