#include "core/topology/node_topology.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "tests/core/topology/example_machines.hpp"

namespace ddl {
namespace {

using Pus = std::vector<int>;

}  // namespace

TEST(NodeTopology, PusAreFoundByPackageAndNumaIndex) {
  NodeTopology node = example::two_packages("h0", 1);
  EXPECT_EQ(pus_of_package(node, 1), (Pus{4, 5, 6, 7}));
  EXPECT_EQ(pus_of_numa(node, 0), (Pus{0, 1, 2, 3}));
  EXPECT_EQ(all_pus(node), (Pus{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(NodeTopology, AnIndexThatDoesNotExistIsAnErrorThatSaysHowManyThereAre) {
  try {
    pus_of_numa(example::two_packages("h0", 1), 2);
    FAIL() << "NUMA node 2 of 2 was found";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("h0 has no NUMA node 2 (it has 2)"), std::string::npos)
        << error.what();
  }
}

TEST(NodeTopology, PuRangesAreReadAndGarbageIsNone) {
  EXPECT_EQ(parse_pu_ranges("0-2,8"), (Pus{0, 1, 2, 8}));
  EXPECT_EQ(parse_pu_ranges("5"), (Pus{5}));
  for (const char* text : {"", "-", "1-", "a", "1,,2", "1-2-3", "0-99999999999", "0x00000003"})
    EXPECT_EQ(parse_pu_ranges(text), Pus{}) << text;
}

}  // namespace ddl
