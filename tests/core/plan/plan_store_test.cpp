#include "core/plan/plan_store.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"

namespace ddl {
namespace {

Members members_on(std::vector<HostIndex> hosts, Rank me = 0) {
  Members members{{}, me, hosts, Grid::from_hosts(hosts)};
  for (Rank rank = 0; rank < static_cast<Rank>(hosts.size()); ++rank) members.ranks.push_back(rank * 10);
  return members;
}

const PlanLimits kLimits{1, Bytes{1} << 20, 0, {}};

}  // namespace

TEST(PlanStore, EqualChoicesOfOneSizeClassShareOnePlan) {
  PlanStore store(members_on({0, 0, 1}), kLimits);
  PlanChoice ring = ring_choice(store.members().grid, 5000, kLimits);
  PreparedPlan& plan = store.prepare(ring, 5000);
  EXPECT_EQ(&store.prepare(ring, 5001), &plan) << "of the same size class";
  EXPECT_EQ(plan.choice, ring);
  EXPECT_NE(&store.prepare(ring, 500'000), &plan);
  PlanChoice other = ring;
  other.window = ring.window + 1;
  PreparedPlan& another = store.prepare(other, 5000);
  EXPECT_NE(&another, &plan);
  EXPECT_NE(another.serial, plan.serial);
}

TEST(PlanStore, CallsTakeTurnsInWhoOwnsTheirFunnels) {
  PlanStore store(members_on({0, 1, 2}), kLimits);
  PlanChoice funnel = store.plan_for({}, 4096).choice;
  funnel.algorithm = {Algorithm::direct, Algorithm::funnel};
  PreparedPlan& plan = store.prepare(funnel, 4096);
  for (std::uint64_t number : {0, 1, 2, 3, 7, 4000}) {
    const PreparedPlan& turn = store.turn(plan, number);
    EXPECT_EQ(turn.choice.shift, static_cast<int>(number % 3));
    EXPECT_EQ(&store.turn(plan, number), &turn) << "made once";
    EXPECT_EQ(turn.plan.name, plan.plan.name) << "counted as one";
  }
  EXPECT_EQ(&store.turn(store.turn(plan, 2), 2), &store.turn(plan, 2));
  PreparedPlan& small = store.prepare(funnel, 2048);
  EXPECT_EQ(&store.turn(small, 1), &small);
}

TEST(PlanStore, ATaskHasOnePlanPerRootAndSizeClass) {
  PlanStore store(members_on({0, 0, 1}), kLimits);
  PreparedPlan& plan = store.plan_for({Kind::broadcast, 1}, 5000);
  EXPECT_EQ(&store.plan_for({Kind::broadcast, 1}, 5001), &plan);
  EXPECT_NE(&store.plan_for({Kind::broadcast, 2}, 5000), &plan);
  EXPECT_NE(&store.plan_for({Kind::reduce, 1}, 5000), &plan);
  EXPECT_NE(&store.plan_for({Kind::broadcast, 1}, 500'000), &plan);
  EXPECT_EQ(plan.task, (Task{Kind::broadcast, 1}));
  PreparedPlan& sum = store.plan_for({}, 5000);
  EXPECT_EQ(&store.prepare(sum.choice, 5000), &sum) << "what the cost model chooses is a choice like others";
}

TEST(PlanStore, PlansNameTheirPeersAsRanksOfTheJob) {
  PlanStore store(members_on({0, 0, 1}), kLimits);
  PreparedPlan& plan = store.plan_for({Kind::send, 2}, 100);
  ASSERT_FALSE(plan.to.empty());
  for (Rank rank : plan.to) EXPECT_EQ(rank, 20);
  EXPECT_TRUE(plan.hears_wire) << "the token";
  EXPECT_EQ(plan.rails, 1u);
  PreparedPlan& here = store.plan_for({Kind::send, 1}, 100);
  EXPECT_FALSE(here.hears_wire);
  EXPECT_EQ(here.rails, 0u);
}

TEST(PlanStore, OnlyASmallExchangeWithinAHostIsOneShot) {
  PlanStore near(members_on({0, 0, 0}), kLimits), far(members_on({0, 0, 1}), kLimits);
  EXPECT_TRUE(near.plan_for({}, 1000).is_one_shot);
  EXPECT_FALSE(near.plan_for({}, 10'000'000).is_one_shot);
  EXPECT_FALSE(far.plan_for({}, 1000).is_one_shot);
  EXPECT_FALSE(near.plan_for({Kind::all_gather, 0}, 1000).is_one_shot);
}

// All that is left to do is to copy, which takes no operation.
TEST(PlanStore, WhoIsAloneHasABriefPlanForAnything) {
  PlanStore alone(members_on({0}), kLimits);
  for (Kind kind : {Kind::all_reduce, Kind::broadcast, Kind::reduce, Kind::all_gather, Kind::reduce_scatter,
                    Kind::all_to_all, Kind::gather, Kind::scatter})
    for (Bytes bytes : {Bytes{1}, Bytes{1000}, Bytes{1} << 30}) {
      const PreparedPlan& plan = alone.plan_for({kind, 0}, bytes);
      EXPECT_TRUE(plan.is_brief) << name_of(kind) << " of " << bytes;
      EXPECT_EQ(plan.plan.steps.size(), 1u);
    }
}

// Whoever hands its share to a funnel's owner and takes the result rounds nothing itself.
TEST(PlanStore, WhatIsNarrowedWithinAHostIsNoOneShotAndNotBrief) {
  PlanStore store(members_on({0, 0}), kLimits);
  for (Algorithm algorithm : {Algorithm::exchange, Algorithm::funnel}) {
    PlanChoice choice;
    choice.algorithm = {algorithm};
    choice.segment = 4096;
    EXPECT_TRUE(store.prepare(choice, 1000).is_brief);
    choice.wire = {DType::float32, WireType::bfloat16, WireWhere::everywhere};
    EXPECT_FALSE(store.prepare(choice, 1000).is_brief);
    EXPECT_FALSE(store.prepare(choice, 1000).is_one_shot);
  }
  const WireFormat between{DType::float32, WireType::bfloat16},
      everywhere{DType::float32, WireType::bfloat16, WireWhere::everywhere};
  EXPECT_NE(&store.plan_for({}, 1000, between), &store.plan_for({}, 1000, everywhere));
}

TEST(PlanStore, ARootThatDoesNotExistIsAnErrorAndLeavesTheStoreAlone) {
  PlanStore store(members_on({0, 0, 1}, 1), kLimits);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THROW(store.plan_for({Kind::broadcast, 3}, 100), Error);
    EXPECT_THROW(store.plan_for({Kind::broadcast, -1}, 100), Error);
    EXPECT_THROW(store.plan_for({Kind::send, 1}, 100), Error) << "to itself";
    EXPECT_THROW(store.plan_for({Kind::receive, 1}, 100), Error);
  }
  EXPECT_NO_THROW(store.plan_for({Kind::send, 0}, 100));
}

TEST(PlanStore, WhatItsPlansWereUsedForIsCollectedOnce) {
  PlanStore store(members_on({0, 0, 1}), kLimits);
  PreparedPlan& plan = store.plan_for({}, 5000);
  Tally twice, own;
  twice.add(5000, 10);
  twice.add(5000, 30);
  own.add(4, 1);
  plan.uses = {{"MPI_Allreduce", twice}, {"", own}};
  Counters counters;
  store.collect(counters);
  store.collect(counters);
  nlohmann::json report = counters.to_json();
  ASSERT_EQ(report["collectives"].size(), 1u) << report.dump() << ": the engine's own calls are not counted";
  const nlohmann::json& counted = report["collectives"][0];
  EXPECT_NE(counted.dump().find("MPI_Allreduce"), std::string::npos);
  EXPECT_NE(counted.dump().find("10000"), std::string::npos) << counted.dump();
  EXPECT_NE(report["algorithms"].dump().find(plan.plan.name), std::string::npos) << report.dump();
  for (const PreparedPlan::Use& use : plan.uses) EXPECT_EQ(use.tally.calls, 0u);
}

TEST(PlanStore, AReduceScatterOfFewBytesBetweenHostsMayReduceAll) {
  auto ways = [](const std::vector<HostIndex>& hosts, Bytes bytes) {
    PlanStore store(members_on(hosts), kLimits);
    std::vector<TaskCandidate> found = store.candidates_for({Kind::reduce_scatter}, bytes);
    EXPECT_FALSE(store.plan_for({Kind::reduce_scatter}, bytes).task_choice.has_parts());
    return std::count_if(found.begin(), found.end(),
                         [](const TaskCandidate& one) { return one.choice.reduces_all; });
  };
  EXPECT_EQ(ways({0, 0, 1, 1}, 64), 1);
  EXPECT_EQ(ways({0, 0, 1, 1}, 64 << 10), 0);
  EXPECT_EQ(ways({0, 0, 0, 0}, 64), 0);
}

TEST(PlanStore, ItsNameTellsPlacementsApartThatHaveEqualDimensions) {
  PlanStore blocks(members_on({0, 0, 1, 1}), kLimits), round_robin(members_on({0, 1, 0, 1}), kLimits);
  EXPECT_NE(blocks.name(), round_robin.name());
  EXPECT_EQ(blocks.name(), PlanStore(members_on({0, 0, 1, 1}, 3), kLimits).name()) << "for all ranks alike";
}

}  // namespace ddl
