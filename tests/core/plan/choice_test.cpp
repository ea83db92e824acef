#include "core/plan/choice.hpp"

#include <gtest/gtest.h>

#include "core/plan/check.hpp"
#include "tests/core/plan/plans.hpp"

namespace ddl {

using test::hosts_of;
using test::plans_of;
using test::round_robin;

TEST(Choice, ForEachSizeFitsTheStaging) {
  for (const auto& machine : {hosts_of({1}), hosts_of({3}), hosts_of({2, 1, 3}), hosts_of({1, 1, 1, 1}),
                              round_robin(4, 8), round_robin(3, 7)})
    for (Bytes bytes : {Bytes{1}, Bytes{4096}, Bytes{1} << 20, Bytes{1} << 33})
      for (Bytes staging : {Bytes{256} << 10, Bytes{4} << 20}) {
        Grid grid = Grid::from_hosts(machine);
        PlanChoice choice = choose(grid, bytes, {2, staging, 0});
        EXPECT_LE(choice.segment * static_cast<Bytes>(choice.window), staging);
        EXPECT_EQ(check_plans(plans_of(grid, choice), 333, 8).problem, "");
      }
}

}  // namespace ddl
