#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "core/topology/draw.hpp"
#include "tests/core/topology/example_machines.hpp"

namespace ddl {
namespace {

using example::two_packages;

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);)
    widest = std::max(widest, static_cast<std::size_t>(std::count_if(
                                  line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; })));
  return widest;
}

}  // namespace

TEST(DrawText, ShowsPlacesGpusLinksNicsAndRanks) {
  Topology topology{{two_packages("h0", 1)}, {{0, 0, {0, 1}, 0}, {1, 0, {4, 5}, 2}}};
  std::string text = draw_text(topology);
  for (const char* words : {"host h0", "package 1 · NUMA 1", "2 cores, PUs 4-7", "gpu3", "0003:01:00.0",
                            "NVLink 40 GB/s", "gpu2═gpu3", "10.0.2.1/24", "25 Gbit/s", "rank 0", "ranks  1"})
    EXPECT_TRUE(has(text, words)) << words << "\n" << text;
}

TEST(DrawText, ARemovedLinkIsGone) {
  NodeTopology node = two_packages("h0", 1);
  node.links.erase(node.links.begin());
  std::string text = draw_text({{node}, {}});
  EXPECT_FALSE(has(text, "gpu0═gpu1"));
  EXPECT_TRUE(has(text, "gpu2═gpu3"));
}

TEST(DrawText, ANodeOfMemoryAloneIsNamedAsThat) {
  NodeTopology node = two_packages("h0", 1);
  NumaNode bare;
  bare.index = 2;
  bare.package = 1;
  bare.memory = Bytes{16} << 30;
  node.numa.push_back(bare);
  std::string text = draw_text({{node}, {}});
  EXPECT_TRUE(has(text, "3 NUMA nodes (1 of memory alone)")) << text;
  EXPECT_TRUE(has(text, "package 1 · NUMA 2")) << text;
  EXPECT_TRUE(has(text, "memory 16.0 GiB, no cores")) << text;
  EXPECT_FALSE(has(text, "0 cores")) << text;
}

TEST(DrawText, ManyEqualLinksAreFolded) {
  NodeTopology node = two_packages("h0", 1);
  node.links.clear();
  for (int a = 0; a < 4; ++a) {
    for (int b = 4; b < 7; ++b)
      node.links.push_back({"gpu" + std::to_string(a), "gpu" + std::to_string(b), 25, "NVLink", ""});
    for (int i = 0; i < 6; ++i)
      node.links.push_back({"gpu" + std::to_string(a), "nvswitch0", 25, "NVLink", ""});
  }
  std::string text = draw_text({{node}, {}});
  EXPECT_TRUE(has(text, "gpu0═gpu4,5,6 nvswitch0 x6")) << text;
  EXPECT_TRUE(has(text, "gpu3═gpu4,5,6 nvswitch0 x6")) << text;
}

TEST(DrawText, AHostLikeAnotherIsShort) {
  std::string text = draw_text({{two_packages("h0", 1), two_packages("h1", 2)}, {{7, 1, {0}, 1}}});
  EXPECT_TRUE(has(text, "host h1 · like h0"));
  EXPECT_TRUE(has(text, "eth0 10.0.1.2/24"));
  EXPECT_TRUE(has(text, "gpu1: ranks 7"));
}

TEST(DrawText, SkippedInterfacesHaveTheirReason) {
  NodeTopology node = two_packages("h0", 1);
  node.nics[1].nic.running = false;
  EXPECT_TRUE(has(draw_text({{node}, {}}), "eth1 (up, but the link is not running)"));
}

TEST(DrawText, RingsReturnToTheirFirstHost) {
  std::string text = draw_text({}, {{"eth0", {"h0", "h2", "h1"}}});
  EXPECT_TRUE(has(text, "h0 → h2 → h1 → back to h0")) << text;
}

TEST(DrawText, NoLineIsWiderThanATerminal) {
  NodeTopology node = two_packages("a-host-name-that-goes-on-and-on." + std::string(90, 'x'), 1);
  node.packages[0].model = std::string(120, 'm');
  node.gpus[0].name = std::string(120, 'g');
  node.nics[0].nic.name = std::string(15, 'n');
  node.notes = {"a note with many words " + std::string(60, 'w') + " " + std::string(60, 'w')};
  for (int i = 0; i < 30; ++i) node.links.push_back({"gpu0", "switch" + std::to_string(i), 25, "NVLink", ""});
  std::vector<std::string> hosts;
  for (int i = 0; i < 60; ++i) hosts.push_back("node" + std::to_string(i));
  EXPECT_LE(widest_line(draw_text({{node}, {}}, {{"eth0 10.0.1.0/24", hosts}})), 100u);
  EXPECT_LE(widest_line(draw_text({{node}, {}})), 100u);
}

TEST(DrawText, AnEmptyTopologyIsDrawnAsNothing) { EXPECT_EQ(draw_text({}), ""); }

}  // namespace ddl
