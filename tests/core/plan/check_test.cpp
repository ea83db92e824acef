#include "core/plan/check.hpp"

#include <gtest/gtest.h>

#include "tests/core/plan/plans.hpp"

namespace ddl {
namespace {

std::vector<Plan> ring_of_three() {
  Grid grid = Grid::from_hosts(test::hosts_of({1, 1, 1}));
  return test::plans_of(grid, test::choice_for(grid, Algorithm::direct, Algorithm::ring));
}

}  // namespace

TEST(Check, SeesABrokenRing) {
  std::vector<Plan> plans = ring_of_three();
  std::swap(plans[0].steps[1].slice, plans[0].steps[3].slice);  // two ring offsets
  EXPECT_NE(check_plans(plans, 64, 4).problem, "");
}

TEST(Check, SeesARankThatWaitsForEver) {
  std::vector<Plan> plans = ring_of_three();
  plans[1].flows[0].count -= 2;  // its last send and copy
  EXPECT_NE(check_plans(plans, 64, 4).problem.find("waits for ever"), std::string::npos);
}

TEST(Check, NamesTheRankWhoseShareIsMissing) {
  Grid grid = Grid::from_hosts(test::hosts_of({3}));
  std::vector<Plan> plans =
      test::plans_of(grid, test::choice_for(grid, Algorithm::exchange, Algorithm::ring));
  for (Step& step : plans[0].steps)
    if (step.verb == Verb::reduce) step.peers = 1;
  EXPECT_EQ(check_plans(plans, 8, 4).problem, "rank 0 holds in element 0 nothing from rank 2");
}

TEST(Check, SeesWhatIsOverwrittenWhileTheWireStillReadsIt) {
  for (Algorithm algorithm : {Algorithm::exchange, Algorithm::doubling}) {
    Grid grid = Grid::from_hosts(test::hosts_of({1, 1, 1, 1}));
    std::vector<Plan> plans = test::plans_of(grid, test::choice_for(grid, Algorithm::direct, algorithm));
    EXPECT_EQ(check_plans(plans, 64, 4).problem, "");
    for (Plan& plan : plans)
      for (Step& step : plan.steps) step.after_sends = false;
    EXPECT_NE(check_plans(plans, 64, 4).problem, "");
  }
}

TEST(Check, SeesASendFromTheWrongBuffer) {
  std::vector<Plan> plans = ring_of_three();
  for (Step& step : plans[2].steps)
    if (step.verb == Verb::send) step.own = Source::input;
  EXPECT_NE(check_plans(plans, 64, 4, Buffers::two).problem, "");
}

}  // namespace ddl
