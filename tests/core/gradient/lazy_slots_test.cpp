// Calls with slots, as the starts of persistent requests are: each rank starts them in an order of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "core/gradient/lazy_all_reduce.hpp"
#include "tests/support/lazy_job.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::expect_sum;
using test::LazyJob;
using test::shares;
using test::sum_of;

constexpr Bytes kLate = 1 << 20;  // never reached here: who waits moves them

// One rank's requests: each slot with a buffer, and started again and again.
class Requests {
 public:
  Requests(LazyAllReduce& lazy, Rank rank, Rank ranks, std::size_t slots)
      : lazy_(lazy), rank_(rank), ranks_(ranks), slots_(slots) {}

  void start(std::size_t slot) {
    One& one = slots_[slot];
    one.values = shares(rank_, 20 + slot, salt(slot));
    lazy_.start(sum_of(one.values.data(), one.values.data(), one.values.size()), one.completion, slot);
    one.is_active = true;
  }
  bool done(std::size_t slot) const { return slots_[slot].completion.done(); }
  bool is_active(std::size_t slot) const { return slots_[slot].is_active; }
  const Completion& completion(std::size_t slot) const { return slots_[slot].completion; }
  /// Of one that is done.
  void end(std::size_t slot) {
    One& one = slots_[slot];
    expect_sum(one.values, everybody(ranks_), salt(slot));
    ++one.starts;
    one.is_active = false;
  }

 private:
  struct One {
    std::vector<float> values;
    Completion completion;
    std::uint32_t starts = 0;
    bool is_active = false;
  };
  std::uint32_t salt(std::size_t slot) const {
    return static_cast<std::uint32_t>(slot) * 5 + slots_[slot].starts * 3;
  }

  LazyAllReduce& lazy_;
  const Rank rank_, ranks_;
  std::vector<One> slots_;
};

// Two ranks that this thread moves.
struct Pair {
  LazyJob job{{0, 1}};
  LazyJob::Comm world;
  std::vector<Requests> requests;

  explicit Pair(std::size_t slots) : world(job.create(1, kLate, {}, slots)) {
    for (Rank rank : {0, 1})
      requests.emplace_back(*world.lazy[static_cast<std::size_t>(rank)], rank, 2, slots);
  }
  void progress() {
    for (Rank rank : {0, 1}) job.job.engine(rank).progress();
  }
  void start(Rank rank, std::size_t slot) { requests[static_cast<std::size_t>(rank)].start(slot); }
  bool done(Rank rank, std::size_t slot) const { return requests[static_cast<std::size_t>(rank)].done(slot); }
  void until_done(std::size_t slot) {
    test::until([&] { return done(0, slot) && done(1, slot); }, [&] { progress(); });
    for (Requests& one : requests) {
      ASSERT_TRUE(one.done(slot)) << "slot " << slot;
      one.end(slot);
    }
  }
  Bytes sent_by_plans() {
    Counters counters;
    std::vector<WireBytes> wire;
    Bytes all = 0;
    for (Rank rank : {0, 1}) job.job.engine(rank).collect(counters, wire);
    for (const WireBytes& one : wire) all += one.sent;
    return all;
  }
};

std::vector<std::size_t> shuffled(std::size_t n, std::mt19937& dice) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), dice);
  return order;
}

// Each rank starts requests in its own order. In between it waits for some of the phases before: all ranks
// start those without waiting for any of this phase.
void run_phases(LazyJob& job, LazyJob::Comm& comm, Rank rank, std::size_t slots, unsigned seed) {
  std::mt19937 shared(seed), dice(seed * 100 + static_cast<unsigned>(rank));
  const auto me = static_cast<std::size_t>(rank);
  Engine& engine = job.job.engine(rank);
  Requests requests(*comm.lazy[me], rank, job.job.size(), slots);
  auto end = [&](std::size_t slot) {
    if (!requests.is_active(slot)) return;
    if (dice() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice() % 300));
    engine.wait(*comm.plain[me], requests.completion(slot));
    if (!engine.failed()) requests.end(slot);
  };
  for (int phase = 0; phase < 30 && !engine.failed(); ++phase) {
    std::vector<std::size_t> these = shuffled(slots, shared);  // the same on all ranks, but for their order
    these.resize(1 + shared() % slots);
    std::vector<std::size_t> earlier;
    for (std::size_t slot = 0; slot < slots; ++slot)
      if (requests.is_active(slot)) earlier.push_back(slot);
    std::shuffle(these.begin(), these.end(), dice);
    for (std::size_t slot : these) {
      if (!earlier.empty() && dice() % 3 == 0) end(earlier[dice() % earlier.size()]);
      // One of this phase that has been ended and started anew is not waited for.
      std::erase(earlier, slot);
      end(slot);
      requests.start(slot);
    }
  }
  for (std::size_t slot : shuffled(slots, dice)) end(slot);
}

void try_phases(const std::vector<HostIndex>& hosts, Bytes threshold, unsigned first) {
  for (unsigned seed = first; seed < first + 8 / test::thinned(2); ++seed) {
    SCOPED_TRACE(seed);
    const std::size_t slots = seed % 2 ? 12 : 70;
    LazyJob job(hosts);
    LazyJob::Comm comm = job.create(1, threshold, {}, slots);
    {
      test::EndsHangingJob ends(job.job);
      job.job.each([&](Rank rank) { run_phases(job, comm, rank, slots, seed); });
    }
    for (Rank rank = 0; rank < job.job.size(); ++rank) ASSERT_EQ(job.job.engine(rank).failure(), "");
  }
}

}  // namespace

TEST(LazySlots, StartsInOrdersOfTheirOwnAreOneOperation) {
  constexpr std::size_t kSlots = 130, kRounds = 10;
  LazyJob job({0, 0, 1});
  LazyJob::Comm world = job.create(1, kLate, {}, kSlots);
  job.job.each([&](Rank rank) {
    const auto me = static_cast<std::size_t>(rank);
    std::mt19937 dice(static_cast<unsigned>(rank) + 1);
    Requests requests(*world.lazy[me], rank, 3, kSlots);
    for (std::size_t round = 0; round < kRounds; ++round) {
      for (std::size_t slot : shuffled(kSlots, dice)) requests.start(slot);
      for (std::size_t slot : shuffled(kSlots, dice)) {
        job.job.engine(rank).wait(*world.plain[me], requests.completion(slot));
        requests.end(slot);
      }
    }
  });
  Counters counters;
  std::vector<WireBytes> wire;
  job.job.engine(1).collect(counters, wire);
  const nlohmann::json report = counters.to_json();
  ASSERT_FALSE(report["fused"].empty()) << report.dump();
  // A helper thread that stands in for a slow one may cut some off.
  EXPECT_LE(report["fused"][0]["batches"], kSlots * kRounds / 5);
  EXPECT_EQ(report["collectives"][0]["engine"]["calls"], kSlots * kRounds);
}

// Rank 0 runs ahead; rank 1 waits for one before it starts the others, in another order.
TEST(LazySlots, ARankMayWaitForOneBeforeItStartsAnother) {
  Pair pair(5);
  for (int round = 0; round < 5; ++round) {
    for (std::size_t slot = 0; slot < 5; ++slot) pair.start(0, slot);
    pair.start(1, 2);
    pair.until_done(2);
    for (std::size_t slot : {0, 1, 3, 4}) EXPECT_FALSE(pair.done(0, slot));
    for (std::size_t slot : {4, 3, 1, 0}) pair.start(1, slot);
    for (std::size_t slot : {0, 1, 3, 4}) pair.until_done(slot);
  }
}

// All have something to offer, and nothing can be decided: that is asked ever more rarely, and still ends.
TEST(LazySlots, WhatNoTwoHaveStartedKeepsNobodyBusy) {
  constexpr Bytes kRow = 16;
  constexpr int kRounds = 40'000;
  Pair pair(100);
  pair.start(0, 3);
  pair.start(1, 90);
  for (int i = 0; i < kRounds; ++i) pair.progress();
  const Bytes sent = pair.sent_by_plans();
  EXPECT_GE(sent, 2 * kRow) << "they take part in agreements";
  EXPECT_LE(sent, kRounds / 8 * 2 * kRow);
  EXPECT_FALSE(pair.done(0, 3) || pair.done(1, 90));
  pair.start(0, 90);
  pair.until_done(90);
  EXPECT_FALSE(pair.done(0, 3));
  pair.start(1, 3);
  pair.until_done(3);
}

// Likewise while both programs are away: helper threads stand in.
TEST(LazySlots, EndWhileTheProgramIsAway) {
  Pair pair(4);
  pair.start(0, 0);
  pair.start(1, 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  pair.start(0, 3);
  pair.start(1, 0);
  test::until([&] { return pair.done(0, 0) && pair.done(1, 0) && pair.done(0, 3) && pair.done(1, 3); },
              [] { std::this_thread::sleep_for(std::chrono::microseconds(100)); });
  for (std::size_t slot : {0, 3}) pair.until_done(slot);
}

TEST(LazySlots, RanksThatMakeDifferentRequestsAreTold) {
  std::vector<float> buffer(100);
  Completion done[4];
  Pair pair(4);
  for (std::size_t i = 0; i < 2; ++i) {
    pair.world.lazy[i]->start(sum_of(buffer.data(), buffer.data(), 10), done[2 * i], 1);
    pair.world.lazy[i]->start(sum_of(buffer.data(), buffer.data(), 20 + i), done[2 * i + 1], 2);
  }
  Engine &one = pair.job.job.engine(0), &other = pair.job.job.engine(1);
  test::until([&] { return one.failed() || other.failed(); }, [&] { pair.progress(); });
  const std::string failure = one.failure() + other.failure();
  EXPECT_NE(failure.find("do not make the same call"), std::string::npos) << failure;
}

TEST(LazySlots, ACommunicatorKnowsThatAnotherRankHasBegun) {
  std::vector<float> values[2] = {std::vector<float>(4, 1), std::vector<float>(4, 1)};
  Completion done[2];
  Pair pair(4);
  Communicator& late = *pair.world.plain[1];
  auto start = [&](std::size_t i) {
    pair.job.job.engine(static_cast<Rank>(i))
        .start(*pair.world.plain[i], sum_of(values[i].data(), values[i].data(), 4), done[i]);
  };
  EXPECT_FALSE(late.is_awaited());
  start(0);
  test::until([&] { return late.is_awaited(); }, [&] { pair.progress(); });
  EXPECT_TRUE(late.is_awaited());
  start(1);
  test::until([&] { return done[0].done() && done[1].done(); }, [&] { pair.progress(); });
  EXPECT_EQ(values[1], std::vector<float>(4, 2));
}

TEST(LazySlots, RunOnOneHost) { try_phases({0, 0, 0}, kLate, 100); }
TEST(LazySlots, RunBetweenHosts) { try_phases({0, 1}, kLate, 200); }
TEST(LazySlots, RunOnUnequalHosts) { try_phases({0, 0, 1, 2, 2}, kLate, 300); }
TEST(LazySlots, RunWithALowThreshold) { try_phases({0, 0, 1, 1}, 2000, 400); }

}  // namespace ddl
