#include "core/session/join_watch.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

constexpr Nanoseconds kWaited = 10'000'000'000;
constexpr ProcessState kRuns = ProcessState::runs, kStopped = ProcessState::stopped;
constexpr Joining kNotYet = Joining::not_yet, kUnderWay = Joining::under_way, kOver = Joining::over;

std::string line_of(Rank me, const std::vector<Sibling>& here, bool all_have_come = false) {
  return line_of_joining("MPI_Init", kWaited, me, here, all_have_come).value_or("");
}

TEST(JoinWatch, TheLowestRankThatJoinsNamesWhoDoesNotCome) {
  const std::vector<Sibling> here = {
      {0, kRuns, kNotYet}, {1, kRuns, kUnderWay}, {2, kStopped, kNotYet}, {3, kRuns, kUnderWay}};
  EXPECT_EQ(
      line_of(1, here),
      "waiting for 10 s in MPI_Init: rank 0 does not come; rank 2 is stopped (by a signal or a debugger)");
  EXPECT_EQ(line_of(3, here), "");
}

TEST(JoinWatch, WhoHasLeftMpiInitDoesNotSpeakForThoseInIt) {
  const std::vector<Sibling> here = {{0, kRuns, kOver}, {1, kRuns, kUnderWay}, {2, kStopped, kUnderWay}};
  EXPECT_EQ(line_of(1, here, true),
            "waiting for 10 s in MPI_Init: rank 2 is stopped (by a signal or a debugger)");
}

TEST(JoinWatch, OnceAllHaveComeNobodyIsSaidNotTo) {
  EXPECT_EQ(line_of(0, {{0, kRuns, kUnderWay}, {1, kRuns, kNotYet}}, true),
            "waiting for 10 s in MPI_Init, to which perhaps not all ranks of other hosts have come");
}

TEST(JoinWatch, OfAProgramThatWeCannotSeeNothingIsSaid) {
  EXPECT_EQ(line_of(0, {{0, kRuns, kUnderWay}, {1, kRuns, Joining::unknown}}),
            "waiting for 10 s in MPI_Init, to which perhaps not all ranks of other hosts have come");
}

TEST(JoinWatch, WhereNothingIsKnownTheFirstTwoHostsSayIt) {
  auto speaks = [](Rank first) {
    return !line_of(first, {{first, kRuns, kUnderWay}, {first + 1, kRuns, kUnderWay}}).empty();
  };
  EXPECT_TRUE(speaks(0) && speaks(2));
  EXPECT_FALSE(speaks(4) || speaks(6) || speaks(128));
  EXPECT_NE(line_of(1, {{1, kRuns, kUnderWay}, {5, kRuns, kUnderWay}}), "");  // placed round-robin
  EXPECT_EQ(line_of(3, {{3, kRuns, kUnderWay}, {7, kRuns, kUnderWay}}), "");
}

}  // namespace
}  // namespace ddl
