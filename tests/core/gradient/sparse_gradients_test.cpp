// Sparse all-reduces on ranks that are threads, against sums made in this file.
#include "core/gradient/sparse_gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/sums.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::VirtualJob;

constexpr Elements kChunks = 20, kCount = kChunks * kChunk - 100;
using Values = std::vector<float>;

// Whole numbers, so that sums are exact. Some chunks are larger than the others, others in each step.
Values gradient_of(Rank rank, int step, int which) {
  Values values(kCount);
  for (Elements i = 0; i < kCount; ++i) {
    const auto chunk = i / kChunk;
    const bool is_large = (chunk + static_cast<Elements>(3 * step + which)) % 7 == 0;
    values[i] = static_cast<float>((is_large ? 10 : 1) * (1 + rank) + static_cast<int>(i % 5) - 2);
  }
  return values;
}

// What all ranks together must get: keeps the residuals of all of them.
class Reference {
 public:
  Reference(Rank ranks, Elements sent)
      : kept_(static_cast<std::size_t>(ranks), Values(kCount)), sent_(sent) {}

  Values next(const std::vector<Values>& gradients) {
    std::vector<double> norms(kChunks);
    for (std::size_t r = 0; r < kept_.size(); ++r)
      for (Elements i = 0; i < kCount; ++i) {
        kept_[r][i] += gradients[r][i];
        norms[i / kChunk] += std::fabs(kept_[r][i]);
      }
    std::vector<Elements> order(kChunks);
    for (Elements i = 0; i < kChunks; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](Elements a, Elements b) { return norms[a] > norms[b]; });
    Values sum(kCount);
    for (Elements n = 0; n < sent_; ++n)
      for (Elements i = order[n] * kChunk; i < std::min(kCount, (order[n] + 1) * kChunk); ++i)
        for (Values& kept : kept_) sum[i] += std::exchange(kept[i], 0.0F);
    return sum;
  }

 private:
  std::vector<Values> kept_;
  Elements sent_;
};

struct Job {
  explicit Job(std::vector<HostIndex> hosts, const SparseSettings& settings, WireRule wire = {})
      : job(std::move(hosts)), world(job.create(1, everybody(job.size()))) {
    for (Rank rank = 0; rank < job.size(); ++rank) {
      auto me = static_cast<std::size_t>(rank);
      auto plans = std::make_shared<PlanStore>(world[me]->members(), PlanLimits{1, Bytes{1} << 20, 0});
      sparse.push_back(std::make_unique<SparseGradients>(
          job.engine(rank), plans, SparseGradients::Identities{2, 3, 1}, settings, wire));
    }
  }
  SparseGradients& of(Rank rank) { return *sparse[static_cast<std::size_t>(rank)]; }
  Communicator& communicator(Rank rank) { return *world[static_cast<std::size_t>(rank)]; }
  // One call on every rank: whether it is sparse, and each rank's result.
  std::vector<Values> call(const std::vector<Values>& gradients, bool is_sparse) {
    std::vector<Values> out = gradients;
    job.each([&](Rank rank) {
      Values& values = out[static_cast<std::size_t>(rank)];
      const Call one{values.data(), values.data(), values.size(), DType::float32, Op::sum, "sum", now()};
      EXPECT_EQ(of(rank).takes(one), is_sparse);
      if (!is_sparse) return;
      Completion completion;
      of(rank).start(one, completion);
      job.engine(rank).wait(communicator(rank), completion);
      EXPECT_EQ(job.engine(rank).failure(), "");
    });
    return out;
  }

  VirtualJob job;
  std::vector<Communicator*> world;
  std::vector<std::unique_ptr<SparseGradients>> sparse;
};

std::vector<Values> gradients(Rank ranks, int step, int which = 0) {
  std::vector<Values> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(gradient_of(rank, step, which));
  return all;
}

SparseSettings settings(double share, std::uint32_t warm_up) {
  SparseSettings made;
  made.share = share;
  made.warm_up = warm_up;
  return made;
}

constexpr int kDense = CallPattern::kLeastCalls;

TEST(SparseGradients, TheLargestChunksTravelAndTheOthersStay) {
  for (const std::vector<HostIndex>& hosts : std::vector<std::vector<HostIndex>>{{0, 1}, {0, 0, 1, 1, 1}}) {
    Job job(hosts, settings(0.2, 0));
    const Rank ranks = job.job.size();
    Reference reference(ranks, 4);
    for (int step = 0; step < kDense; ++step) job.call(gradients(ranks, step), false);
    for (int step = 0; step < 12; ++step) {
      const auto all = gradients(ranks, step);
      const auto out = job.call(all, true);
      const Values expected = reference.next(all);
      for (const Values& one : out) ASSERT_EQ(one, expected) << step;
    }
    EXPECT_EQ(job.of(0).kept(), kCount * sizeof(float));
  }
}

// The calls of two gradients, several steps under way at once, waited for in another order on each rank, with
// ordinary calls in between.
TEST(SparseGradients, NonblockingCallsOverlap) {
  const std::vector<HostIndex> hosts = {0, 0, 1, 2};
  Job job(hosts, settings(0.2, 0));
  const Rank ranks = job.job.size();
  constexpr int kSteps = 4;
  Reference first(ranks, 4), second(ranks, 4);
  std::vector<Values> expected;
  for (int step = 0; step < kSteps; ++step) {
    expected.push_back(first.next(gradients(ranks, step, 0)));
    expected.push_back(second.next(gradients(ranks, step, 1)));
  }
  job.job.each([&](Rank rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    SparseGradients& sparse = job.of(rank);
    Engine& engine = job.job.engine(rank);
    // Two sizes, so that the step has two places.
    Call shape{nullptr, nullptr, kCount, DType::float32, Op::sum};
    Call other{nullptr, nullptr, kCount, DType::float64, Op::sum};
    for (int step = 0; step < kDense; ++step) EXPECT_FALSE(sparse.takes(step % 2 ? other : shape));
    std::vector<Values> values;
    std::vector<std::vector<double>> doubles;
    std::vector<std::unique_ptr<Completion>> completions;
    for (int step = 0; step < kSteps; ++step) {
      values.push_back(gradient_of(rank, step, 0));
      const Values wide = gradient_of(rank, step, 1);
      doubles.emplace_back(wide.begin(), wide.end());
    }
    for (int step = 0; step < kSteps; ++step) {
      auto at = static_cast<std::size_t>(step);
      completions.push_back(std::make_unique<Completion>());
      Call call = shape;
      call.in = call.out = values[at].data();
      EXPECT_TRUE(sparse.takes(call));
      sparse.start(call, *completions.back());
      double sum = 1;
      engine.run(job.communicator(rank), {&sum, &sum, 1, DType::float64, Op::sum});
      EXPECT_EQ(sum, ranks);
      completions.push_back(std::make_unique<Completion>());
      call = other;
      call.in = call.out = doubles[at].data();
      EXPECT_TRUE(sparse.takes(call));
      sparse.start(call, *completions.back());
    }
    std::vector<std::size_t> order(completions.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t which : order) engine.wait(job.communicator(rank), *completions[which]);
    EXPECT_EQ(engine.failure(), "");
    for (std::size_t step = 0; step < kSteps; ++step) {
      EXPECT_EQ(values[step], expected[2 * step]) << step;
      EXPECT_EQ(Values(doubles[step].begin(), doubles[step].end()), expected[2 * step + 1]) << step;
    }
  });
}

std::shared_ptr<SparseGradient> named(Elements count, const SparseSettings& settings) {
  auto made = std::make_shared<SparseGradient>();
  made->settings = settings;
  made->residual.emplace(count, DType::float32);
  return made;
}

// The second call brings what the first has not taken from what is kept, and must not add to it before.
TEST(SparseGradients, TheNextStepOfAGradientWaitsForTheOneUnderWay) {
  Job job({0, 1, 1}, settings(1, 0));
  const Rank ranks = job.job.size();
  Reference reference(ranks, 4);
  std::vector<Values> expected;
  constexpr int kSteps = 6;
  for (int step = 0; step < kSteps; ++step) expected.push_back(reference.next(gradients(ranks, step)));
  job.job.each([&](Rank rank) {
    auto gradient = named(kCount, settings(0.2, 0));
    std::vector<Values> values;
    std::vector<Completion> completions(kSteps);
    for (int step = 0; step < kSteps; ++step) values.push_back(gradient_of(rank, step, 0));
    for (std::size_t step = 0; step < kSteps; ++step) {
      const Call call{values[step].data(), values[step].data(), kCount, DType::float32, Op::sum};
      job.of(rank).start(gradient, call, completions[step]);
    }
    for (std::size_t step = 0; step < kSteps; ++step) {
      job.job.engine(rank).wait(job.communicator(rank), completions[step]);
      EXPECT_EQ(values[step], expected[step]) << step;
    }
  });
}

// Norms of a short gradient are known before those of a long one, not on all ranks at once.
TEST(SparseGradients, ChunksTravelInTheOrderOfTheCalls) {
  Job job({0, 1, 2, 2}, settings(1, 0));
  constexpr Elements kLong = 2000 * kChunk, kShort = 2 * kChunk;
  job.job.each([&](Rank rank) {
    auto of_long = named(kLong, settings(0.001, 0)), of_short = named(kShort, settings(0.5, 0));
    for (int round = 0; round < 20 / test::thinned(10); ++round) {
      Values longer(kLong, 1), shorter(kShort, 1);
      longer[round * kChunk] = 5, shorter[0] = 5;
      Completion first, second;
      job.of(rank).start(of_long, {longer.data(), longer.data(), kLong, DType::float32, Op::sum}, first);
      job.of(rank).start(of_short, {shorter.data(), shorter.data(), kShort, DType::float32, Op::sum}, second);
      job.job.engine(rank).wait(job.communicator(rank), second);
      job.job.engine(rank).wait(job.communicator(rank), first);
      ASSERT_EQ(job.job.engine(rank).failure(), "");
      ASSERT_EQ(shorter[kChunk - 1], round % 2 ? 0 : 4 * (round == 0 ? 1 : 2)) << round;
      if (round == 0) {
        ASSERT_EQ(longer[0], 4 * 5);
      }
    }
  });
}

// One call with that number on every rank, on a communicator of its own: whether it is sparse.
bool run_numbered(Job& job, std::uint64_t number, std::vector<Values>& values) {
  const std::vector<Communicator*> on = job.job.create(100 + number, everybody(job.job.size()));
  std::atomic<int> sparse{0};
  job.job.each([&](Rank rank) {
    const auto me = static_cast<std::size_t>(rank);
    const Call call{values[me].data(), values[me].data(), kCount, DType::float32, Op::sum};
    if (job.of(rank).run(call, number, *on[me])) ++sparse;
  });
  EXPECT_TRUE(sparse == 0 || sparse == job.job.size()) << "alike on all ranks";
  for (Rank rank = 0; rank < job.job.size(); ++rank) EXPECT_EQ(job.job.engine(rank).failure(), "");
  return sparse != 0;
}

// Rank 1 hears of a call that the others have not heard of yet, and begins anew.
TEST(SparseGradients, ARankThatLostThePatternIsWaitedFor) {
  Job job({0, 1}, settings(0.2, 4));
  std::uint64_t number = 0;
  auto call = [&] {
    auto all = gradients(2, static_cast<int>(number));
    return run_numbered(job, number++, all);
  };
  int calls = 0;
  while (!call()) ASSERT_LT(++calls, kDense + 8);
  job.of(1).takes({nullptr, nullptr, kCount + 1, DType::float32, Op::sum});
  for (calls = 0; !call();) ASSERT_LT(++calls, 4 * kDense);
  EXPECT_GE(calls, 2 * kDense) << "until rank 1 knows a pattern, and what it sends whole then";
}

TEST(SparseGradients, WhatDoesNotFitOnOneRankIsSentWholeByAll) {
  SparseSettings bounded = settings(0.2, 0);
  Job job({0, 1}, bounded);
  bounded.most_kept = 1;
  job.sparse[1].reset();
  auto plans = std::make_shared<PlanStore>(job.world[1]->members(), PlanLimits{1, Bytes{1} << 20, 0});
  job.sparse[1] = std::make_unique<SparseGradients>(
      job.job.engine(1), plans, SparseGradients::Identities{2, 3, 1}, bounded, WireRule{});
  for (std::uint64_t number = 0; number < kDense + 8; ++number) {
    auto all = gradients(2, static_cast<int>(number));
    EXPECT_FALSE(run_numbered(job, number, all));
  }
}

TEST(SparseGradients, AnotherCallEndsThePatternAndWhatWasKept) {
  Job job({0, 1}, settings(0.2, 0));
  for (int step = 0; step < kDense; ++step) job.call(gradients(2, step), false);
  job.call(gradients(2, 1), true);
  EXPECT_GT(job.of(0).kept(), 0u);
  job.call(std::vector<Values>(2, Values(kCount + 1)), false);
  EXPECT_EQ(job.of(0).kept(), 0u);
  job.call(gradients(2, 2), false);
}

TEST(SparseGradients, OtherCallsAreLeftAlone) {
  Job job({0, 1}, settings(0.2, 0));
  SparseGradients& sparse = job.of(0);
  Call call{nullptr, nullptr, kCount, DType::float32, Op::sum};
  for (int step = 0; step < kDense; ++step) EXPECT_FALSE(sparse.takes(call));
  Call small = call, whole = call, largest = call, broadcast = call;
  small.count = 100;
  whole.type = DType::int32;
  largest.op = Op::max;
  broadcast.kind = Kind::broadcast;
  for (const Call& one : {small, whole, largest, broadcast}) EXPECT_FALSE(sparse.takes(one));
  EXPECT_TRUE(sparse.takes(call)) << "the others are no part of the pattern";
}

TEST(SparseGradients, WhatWouldKeepTooMuchIsSentWhole) {
  SparseSettings bounded = settings(0.2, 0);
  bounded.most_kept = kCount * sizeof(float);
  Job job({0, 1}, bounded);
  SparseGradients& sparse = job.of(0);
  Call one{nullptr, nullptr, kCount, DType::float32, Op::sum}, other = one;
  other.count -= 1;
  for (int step = 0; step < kDense; ++step) EXPECT_FALSE(sparse.takes(step % 2 ? other : one));
  EXPECT_TRUE(sparse.takes(one));
  EXPECT_FALSE(sparse.takes(other));
  EXPECT_TRUE(sparse.takes(one));
  EXPECT_EQ(sparse.kept(), bounded.most_kept);
}

TEST(SparseGradients, TheChunksTravelNarrowerWhereAllReducesDo) {
  Job job({0, 0, 1, 1}, settings(0.2, 0), {WireType::bfloat16, 64 << 10});
  for (int step = 0; step < kDense; ++step) job.call(gradients(4, step), false);
  Bytes sent = 0, in_memory = 0;
  const auto all = gradients(4, 0);
  const Values expected = Reference(4, 4).next(all);
  for (const Values& out : job.call(all, true))
    for (Elements i = 0; i < kCount; ++i)
      ASSERT_NEAR(out[i], expected[i], 0.02 * std::fabs(expected[i])) << i;
  for (Rank rank = 0; rank < 4; ++rank) {
    Counters counters;
    std::vector<WireBytes> rails;
    job.job.engine(rank).collect(counters, rails);
    for (const WireBytes& rail : rails) sent += rail.sent, in_memory += rail.in_memory;
  }
  EXPECT_LT(sent, in_memory * 11 / 20);
  EXPECT_LT(in_memory, 2 * (4 * kChunk * sizeof(float)) + 1024) << "a fifth of it, and the norms";
}

}  // namespace
}  // namespace ddl
