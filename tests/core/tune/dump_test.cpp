#include "core/tune/dump.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

Grid two_by_two() { return Grid::from_hosts(std::vector<HostIndex>{0, 0, 1, 1}); }

PlanChoice choice(Algorithm local, Algorithm hosts) {
  PlanChoice one;
  one.algorithm = {local, hosts};
  return one;
}

}  // namespace

TEST(Dump, ACallsTimeIsSharedOutOverItsDimensions) {
  Dump dump(two_by_two());
  // Four flows at once: their steps take longer together than the call.
  dump.add(10'000, choice(Algorithm::direct, Algorithm::ring), std::vector<Nanoseconds>{8'000, 24'000});
  EXPECT_EQ(dump.text(), "1 calls took 10.0 us: 2 local direct 2.5 us, 2 hosts ring 7.5 us");
}

TEST(Dump, CallsOfDifferentPlansAreToldApart) {
  Dump dump(two_by_two());
  dump.add(10'000, choice(Algorithm::direct, Algorithm::ring), std::vector<Nanoseconds>{1, 1});
  dump.add(4'000, choice(Algorithm::direct, Algorithm::exchange), std::vector<Nanoseconds>{1, 3});
  dump.add_original(20'000);
  EXPECT_EQ(dump.text(),
            "3 calls took 34.0 us: 2 local direct 6.0 us, 2 hosts ring 5.0 us, 2 hosts exchange 3.0 us, "
            "the original library 20.0 us");
  EXPECT_EQ(dump.jitter(), 16'000);
}

TEST(Dump, ItStartsAnew) {
  Dump dump(two_by_two());
  dump.add_original(20'000);
  dump.clear();
  EXPECT_EQ(dump.jitter(), 0);
  dump.add(3'000, choice(Algorithm::funnel, Algorithm::exchange), std::vector<Nanoseconds>{0, 0});
  EXPECT_EQ(dump.calls(), 1u);
  EXPECT_EQ(dump.text(), "1 calls took 3.0 us") << "of no steps nothing is said";
}

}  // namespace ddl
