#include "launcher/topology_view.hpp"

#include <gtest/gtest.h>

#include "core/topology/topology_json.hpp"
#include "launcher/accelerators.hpp"
#include "tests/launcher/fake_system.hpp"

namespace ddl {

TEST(TopologyView, AProbesAnswerIsFoundBetweenBanners) {
  NodeTopology node;
  node.host = "h3";
  auto found = find_node_topology("Welcome to h3!\n" + json_text(node) + "Connection closed.\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, node);
}

TEST(TopologyView, NoiseIsNoAnswer) {
  EXPECT_FALSE(find_node_topology(""));
  EXPECT_FALSE(find_node_topology("hello {world}\n"));
}

TEST(TopologyView, TheDescriptionOfAJobNamesHostsAndMissingShim) {
  Options options = parse_options({"-H", "h1:2,h2:3", "p"});
  System world = FakeWorld{}.view();
  Allocation allocation = resolve_allocation(options, world);
  MpirunInfo mpirun{"mpirun", true, 4, "4.1.4", ""};
  Installation installation{"/opt/bin", "/opt/lib"};
  JobInputs in{options, allocation, mpirun, installation, world};
  std::string text = describe_job(in, engine_job(in));
  EXPECT_NE(text.find("2 from -H"), std::string::npos);
  EXPECT_NE(text.find("3 slots"), std::string::npos);
  EXPECT_NE(text.find("missing"), std::string::npos);
}

TEST(TopologyView, TheDescriptionSaysWhetherAcceleratorsCountTheRanks) {
  auto described = [](const std::string& line) {
    System world = FakeWorld{}.view();
    Options options = with_rank_per_accelerator(parse_options(split_shell_words(line)), world);
    Allocation allocation = resolve_allocation(options, world);
    MpirunInfo mpirun{"mpirun", true, 4, "4.1.4", ""};
    Installation installation{"/opt/bin", "/opt/lib"};
    JobInputs in{options, allocation, mpirun, installation, world};
    return describe_job(in, engine_job(in));
  };
  EXPECT_NE(described("--accelerators 4 p").find("accelerators  4 on each host, with a rank for each\n"),
            std::string::npos);
  EXPECT_NE(described("--accelerators 4 -np 2 p").find("4 on each host, but other options count the ranks\n"),
            std::string::npos);
  EXPECT_EQ(described("p").find("accelerators"), std::string::npos);
}

}  // namespace ddl
