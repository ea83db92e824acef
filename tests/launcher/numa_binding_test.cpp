#include "launcher/numa_binding.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {
namespace {

RankFacts local(int rank, int size) { return {rank, size, rank, size}; }

}  // namespace

TEST(NumaBinding, CpuListsAreParsed) {
  EXPECT_EQ(parse_cpu_list("0-3,8"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_THROW(parse_cpu_list("3-1"), UsageError);
  EXPECT_THROW(parse_cpu_list("a"), UsageError);
}

TEST(NumaBinding, RanksGoRoundTheNodes) {
  std::vector<std::vector<int>> nodes = {{0, 1}, {2, 3}};
  EXPECT_EQ(choose_cpus(nodes, local(0, 4)), nodes[0]);
  EXPECT_EQ(choose_cpus(nodes, local(1, 4)), nodes[1]);
  EXPECT_EQ(choose_cpus(nodes, local(2, 4)), nodes[0]);
}

TEST(NumaBinding, NothingIsBoundWhereItWouldNotHelp) {
  EXPECT_TRUE(choose_cpus({{0, 1}}, local(0, 2)).empty());
  EXPECT_TRUE(choose_cpus({{0, 1}, {2, 3}}, local(0, 1)).empty());
  EXPECT_TRUE(choose_cpus({{0, 1}, {2, 3}}, {}).empty());
}

}  // namespace ddl
