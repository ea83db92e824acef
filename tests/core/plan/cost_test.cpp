#include "core/plan/cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/plan/check.hpp"
#include "core/plan/planner.hpp"
#include "tests/core/plan/plans.hpp"

namespace ddl {
namespace {

using test::choice_for;
using test::hosts_of;
using test::plans_of;

constexpr Bytes kMiB = 1 << 20;

Grid hosts(int number, int ranks) {
  return Grid::from_hosts(hosts_of(std::vector<int>(static_cast<std::size_t>(number), ranks)));
}

PlanChoice in_segments(PlanChoice choice, Bytes segment) {
  choice.segment = segment;
  return choice;
}

}  // namespace

TEST(Cost, ManySegmentsOfARingTakeWhatTheWireTakesHoweverManyRanksShareIt) {
  Machine machine;
  for (int ranks : {1, 2, 4}) {
    Grid grid = hosts(4, ranks);
    PlanChoice choice = in_segments(choice_for(grid, Algorithm::direct, Algorithm::ring), kMiB / 2);
    double limit = 2 * 0.75 * 16 * kMiB * machine.wire.beta;
    double predicted = predict(grid, choice, 16 * kMiB, machine).seconds;
    EXPECT_GT(predicted, limit);
    EXPECT_LT(predicted, limit * 1.03) << ranks;
  }
}

TEST(Cost, WhatTravelsNarrowerTakesLessOfTheWireAndWithinAHostWhereItIsToBeEverywhere) {
  Grid grid = hosts(4, 2);
  PlanChoice exact = in_segments(choice_for(grid, Algorithm::direct, Algorithm::ring), kMiB), half = exact,
             eighth = exact, everywhere = exact;
  half.wire = {DType::float32, WireType::bfloat16};
  everywhere.wire = {DType::float32, WireType::bfloat16, WireWhere::everywhere};
  eighth.wire = {DType::float64, WireType::int8};
  Prediction full = predict(grid, exact, 64 * kMiB, {}), narrow = predict(grid, half, 64 * kMiB, {}),
             all = predict(grid, everywhere, 64 * kMiB, {});
  EXPECT_LT(narrow.seconds, 0.53 * full.seconds);
  EXPECT_LT(predict(grid, eighth, 64 * kMiB, {}).seconds, 0.2 * full.seconds);
  ASSERT_EQ(narrow.stages.size(), full.stages.size());
  for (std::size_t s = 0; s < full.stages.size(); ++s) {
    const bool wire = grid.dimension(full.stages[s].dimension).fabric == Fabric::wire;
    EXPECT_EQ(narrow.stages[s].bytes, full.stages[s].bytes / (wire ? 2 : 1));
    EXPECT_EQ(all.stages[s].bytes, full.stages[s].bytes / 2);
  }
  EXPECT_NE(describe(grid, half).find("bfloat16 between hosts"), std::string::npos);
  EXPECT_NE(describe(grid, everywhere).find("bfloat16 everywhere"), std::string::npos);
  for (const Candidate& one : candidates(grid, 64 * kMiB, {}, half.wire))
    EXPECT_EQ(one.choice.wire, half.wire);
}

TEST(Cost, RailsOfUnequalSpeedFinishTogether) {
  Machine machine;
  machine.rail_rate = {120e6, 60e6};
  EXPECT_EQ(shares_of(machine.rail_rate), (std::vector<std::uint32_t>{2, 1}));
  Grid grid = hosts(4, 2);
  auto seconds = [&](std::vector<std::uint32_t> share) {
    return predict(grid,
                   in_segments(choice_for(grid, Algorithm::direct, Algorithm::ring, std::move(share)), kMiB),
                   16 * kMiB, machine)
        .seconds;
  };
  double limit = 2 * 0.75 * 16 * kMiB / 180e6;
  EXPECT_LT(seconds({2, 1}), limit * 1.03);
  EXPECT_GT(seconds({1, 1}), limit * 1.3);
  EXPECT_GT(seconds({1}), limit * 1.4);
}

TEST(Cost, SharesFollowTheRatesWithinAFewPercent) {
  EXPECT_EQ(shares_of({5, 5, 5}), (std::vector<std::uint32_t>{1, 1, 1}));
  EXPECT_EQ(shares_of({7}), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(shares_of({3, 0}), (std::vector<std::uint32_t>{1, 0}));
  for (std::vector<double> rates : {std::vector<double>{119, 58}, {1000, 940, 310}, {25, 12.5, 100}}) {
    std::vector<std::uint32_t> shares = shares_of(rates);
    double rate = 0, weight = 0;
    for (std::size_t i = 0; i < rates.size(); ++i) rate += rates[i], weight += shares[i];
    for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_LT(shares[i] / weight * rate / rates[i], 1.05);
  }
}

TEST(Cost, OneSegmentIsTheSumOfItsStages) {
  Grid grid = test::blocks({2, 3, 4}, 1);
  PlanChoice choice = in_segments(choice_for(grid, Algorithm::direct, Algorithm::halving), kMiB);
  Prediction prediction = predict(grid, choice, kMiB, {});
  double sum = 0;
  for (const StageCost& stage : prediction.stages) sum += stage.seconds;
  ASSERT_EQ(prediction.stages.size(), 6u);
  EXPECT_EQ(prediction.stages[0].verb, "reduce-scatter");
  EXPECT_EQ(prediction.stages[5].verb, "all-gather");
  EXPECT_EQ(prediction.stages[5].dimension, 0);
  EXPECT_NEAR(prediction.seconds, sum, 1e-12);
}

TEST(Cost, BytesAndMessagesOnTheWireAreThoseOfThePlan) {
  for (Algorithm algorithm :
       {Algorithm::direct, Algorithm::ring, Algorithm::exchange, Algorithm::doubling, Algorithm::halving})
    for (int number : {2, 4, 8}) {
      Grid grid = hosts(number, 2);
      PlanChoice choice = in_segments(choice_for(grid, Algorithm::direct, algorithm), kMiB);
      double messages = 0;
      Bytes bytes = 0;
      for (const StageCost& stage : predict(grid, choice, kMiB, {}).stages) {
        if (grid.dimension(stage.dimension).fabric == Fabric::local) continue;
        messages += stage.messages;
        bytes += stage.bytes;
      }
      std::vector<Plan> plans = plans_of(grid, choice);
      double sends = 0;
      for (const Step& step : plans[0].steps)
        if (step.verb == Verb::send && step.fabric == Fabric::wire) sends += step.peers;
      EXPECT_EQ(messages, sends) << plans[0].name;
      EXPECT_EQ(bytes, check_plans(plans, kMiB / 4, 4).wire_sent[0] * 4) << plans[0].name;
    }
}

TEST(Cost, AFunnelOverLinksTakesWhatItsOwnersLinkTakes) {
  // 64 hosts of 8 GPUs with a port of 12 GB/s each: seven whole buffers enter one port, and leave it again.
  Grid grid = hosts(64, 8);
  Machine machine;
  machine.local = {2e-6, 0.3e-6, 1 / 12e9};
  machine.wire = {4e-6, 0.3e-6, 1 / 7e9};
  machine.rail_overhead = machine.gamma = machine.wire_copy = 0;
  machine.inside = Inside::links;
  auto seconds = [&](Algorithm local, Bytes bytes) {
    return predict(grid, in_segments(choice_for(grid, local, Algorithm::halving), bytes), bytes, machine)
        .seconds;
  };
  EXPECT_GT(seconds(Algorithm::funnel, kMiB), 2 * 7.0 * kMiB / 12e9);
  for (Bytes bytes : {Bytes{16} << 10, kMiB, 16 * kMiB})
    EXPECT_LT(seconds(Algorithm::direct, bytes), seconds(Algorithm::funnel, bytes)) << bytes;
}

TEST(Cost, OverLinksEveryCopyOfAMessageCounts) {
  Grid grid = hosts(1, 4);
  Machine memory, links;
  memory.gamma = links.gamma = memory.local.alpha = links.local.alpha = 0;
  memory.local.overhead = links.local.overhead = 0;
  links.inside = Inside::links;
  auto ratio = [&](Algorithm algorithm) {
    PlanChoice choice = in_segments(choice_for(grid, algorithm, algorithm), kMiB);
    return predict(grid, choice, kMiB, links).seconds / predict(grid, choice, kMiB, memory).seconds;
  };
  EXPECT_NEAR(ratio(Algorithm::exchange), 3, 1e-9);
  EXPECT_NEAR(ratio(Algorithm::funnel), 3, 1e-9);
  EXPECT_NEAR(ratio(Algorithm::direct), 1, 1e-9);
}

TEST(Cost, WhatARailTakesPerMessageIsPaidByAllRanksBehindIt) {
  Machine kernel, direct;
  direct.rail_overhead = 0;
  for (int ranks : {1, 8}) {
    Grid grid = hosts(8, ranks);
    PlanChoice choice = in_segments(choice_for(grid, Algorithm::direct, Algorithm::doubling), 512);
    double difference =
        predict(grid, choice, 512, kernel).seconds - predict(grid, choice, 512, direct).seconds;
    EXPECT_NEAR(difference, (ranks - 1) * 3 * kernel.rail_overhead, 1e-9) << ranks;
  }
}

TEST(Cost, WhereHostsShareProcessorsMessagesBetweenThemTakeTurns) {
  Machine free;  // but for turns
  free.local = {0, 0, 0};
  free.wire.beta = free.rail_overhead = free.gamma = free.wire_copy = 0;
  free.rail_rate = {1e30};
  free.shared_cores = 2;
  for (int number : {3, 4, 7, 8})
    for (int ranks : {1, 2})
      for (Algorithm local : {Algorithm::direct, Algorithm::funnel})
        for (Algorithm last : {Algorithm::direct, Algorithm::ring, Algorithm::exchange, Algorithm::doubling,
                               Algorithm::halving, Algorithm::funnel}) {
          Grid grid = hosts(number, ranks);
          PlanChoice choice = in_segments(choice_for(grid, local, last), 4096);
          double messages = 0;
          for (const Plan& plan : plans_of(grid, choice))
            for (const Step& step : plan.steps)
              if (step.verb == Verb::send && step.fabric == Fabric::wire) messages += step.peers;
          // Those of a host hear at the same time.
          if (local == Algorithm::direct) messages *= (1 + (ranks - 1) * free.beside) / ranks;
          if (ranks > 1) messages += number;  // within the hosts, down and up
          EXPECT_NEAR(predict(grid, choice, 4096, free).seconds, messages * free.turn / free.shared_cores,
                      1e-9)
              << describe(grid, choice);
        }
}

TEST(Cost, RailsCarryWhileTurnsAreTaken) {
  Machine shared;
  shared.local = {0, 0, 0};
  shared.rail_overhead = shared.gamma = shared.wire_copy = 0;
  shared.shared_cores = 2;
  Grid grid = hosts(4, 1);
  auto seconds = [&](Bytes bytes) {
    return predict(grid, in_segments(choice_for(grid, Algorithm::direct, Algorithm::ring), bytes), bytes,
                   shared)
        .seconds;
  };
  EXPECT_NEAR(seconds(64), 24 * shared.turn / 2, 1e-9);  // 6 messages of each host
  EXPECT_NEAR(seconds(128 << 10), 2 * 0.75 * (128 << 10) * shared.wire.beta, 1e-9);
}

TEST(Cost, RailsThatAreRatedCarryThatManyBytesAndUnknownOnesWhatIsAssumed) {
  Machine fast = machine_over({56, 100}), slow = machine_over({1}), assumed;
  ASSERT_EQ(fast.rail_rate.size(), 2u);
  EXPECT_NEAR(fast.rail_rate[1] / fast.rail_rate[0], 100.0 / 56, 1e-9);
  EXPECT_LT(fast.rail_rate[0], 7e9);
  EXPECT_GT(fast.rail_rate[0], 6.5e9);
  EXPECT_NEAR(slow.wire.beta, assumed.wire.beta, 0.01 * assumed.wire.beta);
  for (const std::vector<double>& unknown : {std::vector<double>{}, {0}, {100, 0}}) {
    EXPECT_TRUE(machine_over(unknown).rail_rate.empty());
    EXPECT_EQ(machine_over(unknown).wire.beta, assumed.wire.beta);
  }
  Grid grid = hosts(4, 2);
  PlanChoice choice = in_segments(choice_for(grid, Algorithm::direct, Algorithm::ring), kMiB);
  EXPECT_LT(predict(grid, choice, 16 * kMiB, machine_over({10})).seconds,
            0.2 * predict(grid, choice, 16 * kMiB, assumed).seconds);
}

TEST(Cost, RanksThatShareACoreTakeLonger) {
  Grid grid = hosts(1, 4);
  PlanChoice choice = in_segments(choice_for(grid, Algorithm::direct, Algorithm::ring), kMiB / 4);
  Machine two_cores;
  two_cores.cores = 2;
  EXPECT_NEAR(predict(grid, choice, 16 * kMiB, two_cores).seconds,
              2 * predict(grid, choice, 16 * kMiB, {}).seconds, 1e-4);
}

TEST(Cost, NothingTakesNoTimeButItsSteps) {
  Grid grid = hosts(2, 1);
  PlanChoice choice = in_segments(choice_for(grid, Algorithm::direct, Algorithm::ring), 4096);
  double seconds = predict(grid, choice, 0, {}).seconds;
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 1e-4);
}

}  // namespace ddl
