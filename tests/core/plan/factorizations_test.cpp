#include "core/plan/factorizations.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "tests/core/plan/plans.hpp"

namespace ddl {
namespace {

std::string complaint(const std::vector<HostIndex>& hosts, const std::vector<Rank>& dims) {
  try {
    check_dims(hosts, dims);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST(Factorizations, AreOrderedAndComplete) {
  EXPECT_EQ(factorizations(8, 3), (std::vector<std::vector<Rank>>{{8}, {2, 4}, {4, 2}, {2, 2, 2}}));
  EXPECT_EQ(factorizations(7, 3), (std::vector<std::vector<Rank>>{{7}}));
  EXPECT_EQ(factorizations(1, 3).size(), 1u);
}

TEST(Factorizations, WrongDimensionsAreRefusedInTheWordsUsersKnow) {
  EXPECT_EQ(complaint(test::hosts_of({4, 4}), {4, 3}),
            "invalid dim size=12 usr_size=8 dim[0]=4 dim[1]=3 (the product of the dimensions must be the "
            "number of ranks); write one that fits: 4x2, 2x4, 8");
  EXPECT_EQ(complaint(test::hosts_of({4, 4}), {4, 2}), "");
  EXPECT_EQ(complaint(test::hosts_of({4, 4}), {4, 2, 1}), "");
}

TEST(Factorizations, ThoseThatFitTheHostsComeFirst) {
  std::string text = complaint(test::hosts_of({6, 6}), {3, 3});
  EXPECT_NE(text.find("fits: 6x2, 2x6, 3x4, 4x3"), std::string::npos) << text;
}

TEST(Factorizations, ManyDimensionsDoNotOverflow) {
  EXPECT_NE(complaint(test::hosts_of({2}), std::vector<Rank>(40, 1 << 20)).find("usr_size=2"),
            std::string::npos);
  EXPECT_NE(complaint(test::hosts_of({2}), {}), "");
  EXPECT_NE(complaint(test::hosts_of({2}), {-1, -2}), "");
}

}  // namespace ddl
