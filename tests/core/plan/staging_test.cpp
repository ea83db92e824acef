// The bound on staging memory against the blocks that plans really send.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/plan/plans.hpp"

namespace ddl {
namespace {

void expect_room(const Grid& grid, const PlanChoice& choice) {
  Bytes most = 0;
  for (const Plan& plan : test::plans_of(grid, choice)) most = std::max(most, test::blocks_of(plan));
  EXPECT_LE(most, staging_need(grid, choice)) << describe(grid, choice);
}

}  // namespace

TEST(Staging, NoRankOfNoPlanNeedsMoreThanIsReserved) {
  std::vector<Grid> grids = {Grid::from_hosts(test::hosts_of({7})),
                             Grid::from_hosts(test::hosts_of({2, 1, 3})),
                             Grid::from_hosts(test::hosts_of({1, 5, 5, 8})),
                             Grid::from_hosts(test::round_robin(4, 8)),
                             Grid::from_dims(test::hosts_of({2, 2, 2, 2}), std::vector<Rank>{4, 2}),
                             Grid::from_dims(test::hosts_of({8, 8}), std::vector<Rank>{2, 4, 2})};
  for (const Grid& grid : grids)
    for (Algorithm first : {Algorithm::direct, Algorithm::ring, Algorithm::halving, Algorithm::funnel})
      for (int rest = 0; rest < kAlgorithms; ++rest)
        for (Bytes segment : {Bytes{2048}, Bytes{1} << 20})
          for (std::vector<std::uint32_t> share : {std::vector<std::uint32_t>{1}, {2, 1}}) {
            if (grid.dimensions() > 2 && is_final(static_cast<Algorithm>(rest))) continue;
            PlanChoice choice = test::choice_for(grid, first, static_cast<Algorithm>(rest), share);
            if (grid.dimensions() == 1) choice.algorithm = {static_cast<Algorithm>(rest)};
            choice.segment = segment;
            expect_room(grid, choice);
          }
}

}  // namespace ddl
