#include "core/gradient/gradient_cost.hpp"

#include <gtest/gtest.h>

namespace ddl {

// Four hosts of two ranks at 1 Gbit/s, whose ranks share two cores.
struct GradientCost : testing::Test {
  Grid grid = Grid::from_hosts(std::vector<HostIndex>{0, 0, 1, 1, 2, 2, 3, 3});
  PlanLimits limits{.staging = Bytes{4} << 20};
  double wire_of(Bytes bytes) const {  // of two ranks that share a link
    return 2 * 0.75 * static_cast<double>(bytes) * limits.machine.wire.beta;
  }
};

TEST_F(GradientCost, ManySmallCallsAreFasterAsOneAndNeverBeatTheWire) {
  for (Bytes bytes : {Bytes{256}, Bytes{4} << 10}) {
    const FusedCost cost = predict_fused(grid, fusion_rule(1 << 20, true), bytes, 400, limits, {});
    EXPECT_LT(cost.fused, cost.alone) << bytes;
    EXPECT_GT(cost.fused, wire_of(400 * bytes)) << bytes;
    EXPECT_EQ(cost.batch, std::min<Bytes>(400 * bytes, 1 << 20));
    EXPECT_EQ(cost.batches, bytes == 256 ? 1u : 2u);
  }
}

TEST_F(GradientCost, ALoneCallIsSlowerForTheAgreement) {
  const FusedCost cost = predict_fused(grid, fusion_rule(1 << 20, true), 4096, 1, limits, {});
  EXPECT_EQ(cost.batches, 1u);
  EXPECT_GT(cost.fused, cost.alone);
}

TEST_F(GradientCost, AShareTakesItsShareOfTheTime) {
  const SparseSettings tenth{.share = 0.1};
  const SparseCost cost = predict_sparse(grid, tenth, 16 << 20, limits, {});
  EXPECT_EQ(cost.of_chunks, 4096u);
  EXPECT_EQ(cost.sent_chunks, 410u) << "in the end";
  EXPECT_GT(cost.chunks, wire_of(410 * 4096));
  EXPECT_LT(cost.sparse(), 0.25 * cost.whole);
  const SparseCost narrow =
      predict_sparse(grid, tenth, 16 << 20, limits, {DType::float32, WireType::bfloat16});
  EXPECT_LT(narrow.chunks, 0.7 * cost.chunks);
  EXPECT_EQ(narrow.norms, cost.norms) << "they stay exact";
}

}  // namespace ddl
