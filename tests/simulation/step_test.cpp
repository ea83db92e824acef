#include "step.hpp"

#include <gtest/gtest.h>

#include "methods.hpp"

namespace ddl::simulation {
namespace {

// Two seconds of computing, then tensors of 1, 300, 2, 1 and 1000 elements with a second before each.
const std::vector<Gradient> kGradients{{0, 2}, {1, 1}, {300, 1}, {2, 1}, {1, 1}, {1000, 1}};

std::vector<Bytes> bytes_of(const std::vector<StepCall>& calls) {
  std::vector<Bytes> bytes;
  for (const StepCall& call : calls) bytes.push_back(call.bytes);
  return bytes;
}
std::vector<double> ready_of(const std::vector<StepCall>& calls) {
  std::vector<double> ready;
  for (const StepCall& call : calls) ready.push_back(call.ready);
  return ready;
}

}  // namespace

TEST(Step, EachTensorIsAnAllReduceWhenItIsReady) {
  const auto calls = calls_of(kGradients, {});
  EXPECT_EQ(bytes_of(calls), (std::vector<Bytes>{4, 1200, 8, 4, 4000}));
  EXPECT_EQ(ready_of(calls), (std::vector<double>{3, 4, 5, 6, 7}));
}

TEST(Step, SmallTensorsWaitUntilThereAreEnough) {
  const auto calls = calls_of(kGradients, {.fusion = {12, 100, 12}});
  EXPECT_EQ(bytes_of(calls), (std::vector<Bytes>{1200, 12, 4000, 4}));
  EXPECT_EQ(ready_of(calls), (std::vector<double>{4, 5, 7, 7}));
}

TEST(Step, WhatWaitsIsCutIntoBatchesAsTheEngineDoesIt) {
  const auto calls = calls_of(kGradients, {.fusion = {2000, 2000, 1208}});
  EXPECT_EQ(bytes_of(calls), (std::vector<Bytes>{4000, 1204, 12}));
  EXPECT_EQ(ready_of(calls), (std::vector<double>{7, 7, 7}));
}

TEST(Step, WithoutALimitAllGoTogether) {
  const auto calls = calls_of(kGradients, {.element = 2, .fusion = {1 << 20, 1 << 20, 1 << 20}});
  EXPECT_EQ(bytes_of(calls), (std::vector<Bytes>{2 * 1304}));
  EXPECT_EQ(ready_of(calls), (std::vector<double>{7}));
}

TEST(Step, AShareOfTheChunksIsSentBehindTheirNorms) {
  // 1000 elements are 10 chunks, of which 3 are sent; what is small is whole.
  const StepRule rule{.wire = {WireType::bfloat16, 2000},
                      .sparse = {.share = 0.25, .from = 1000, .warm_up = 0},
                      .chunk = 100};
  const auto calls = calls_of({{1000, 1}, {30, 1}}, rule);
  EXPECT_EQ(bytes_of(calls), (std::vector<Bytes>{40, 1200, 120}));
  EXPECT_EQ(ready_of(calls), (std::vector<double>{1, 1, 2}));
  EXPECT_TRUE(calls[0].wire.is_exact());
  EXPECT_EQ(calls[1].wire.as, WireType::bfloat16) << "by the size of its gradient";
  EXPECT_TRUE(calls[2].wire.is_exact());
}

TEST(Step, HalvesInMemoryAreNeitherSparseNorNarrower) {
  const StepRule rule{
      .element = 2, .wire = {WireType::float16, 0}, .sparse = {.share = 0.25, .from = 0, .warm_up = 0}};
  const auto calls = calls_of({{100'000, 1}}, rule);
  EXPECT_EQ(bytes_of(calls), std::vector<Bytes>{200'000});
  EXPECT_TRUE(calls[0].wire.is_exact());
}

TEST(Step, WhatIsReducedBeforeComputingEndsIsHidden) {
  // The first is hidden, of the second one of two seconds; the third waits for it.
  const std::vector<Gradient> gradients{{10, 1}, {20, 2}, {10, 1}};
  const StepTime time = time_of_step(gradients, calls_of(gradients, {}), [](const StepCall& call) {
    return static_cast<double>(call.bytes) / 40;
  });
  EXPECT_DOUBLE_EQ(time.computing, 4);
  EXPECT_DOUBLE_EQ(time.reducing, 4);
  EXPECT_DOUBLE_EQ(time.seconds, 6);
  EXPECT_DOUBLE_EQ(time.hidden(), 0.5);
}

TEST(Step, WhatTravelsNarrowerLoadsTheRailsLess) {
  const Cluster cluster = with_hosts(find_cluster("64x8"), 3);
  constexpr Bytes kBytes = 8 << 20;
  const PlanChoice choice = our_choice(cluster, kBytes, 16 << 20, "ring").choice;
  const auto exact = simulate(cluster, our_plans(cluster, choice), kBytes);
  for (const auto& [type, ratio] :
       {std::pair{WireType::float16, 0.5}, std::pair{WireType::int8, 17.0 / 64}}) {
    const WireFormat wire{DType::float32, type};
    PlanChoice narrow_choice = choice;
    narrow_choice.wire = wire;
    const auto narrow = simulate(cluster, our_plans(cluster, narrow_choice), kBytes, wire);
    ASSERT_TRUE(exact && narrow);
    EXPECT_NEAR(narrow->wire_bytes, ratio * exact->wire_bytes, 1e-3 * exact->wire_bytes);
    EXPECT_LT(narrow->seconds, exact->seconds);
    EXPECT_LT(our_prediction(cluster, narrow_choice, kBytes).seconds,
              our_prediction(cluster, choice, kBytes).seconds);
  }
}

}  // namespace ddl::simulation
