#include <gtest/gtest.h>

#include <vector>

#include "core/topology/draw.hpp"
#include "tests/core/topology/example_machines.hpp"

namespace ddl {
namespace {

using example::two_packages;

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

std::size_t occurrences(const std::string& text, const std::string& words) {
  std::size_t count = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

// Whether every tag is closed in order: what a broken string in the drawing code would violate.
bool is_balanced(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return false;
    if (tag[0] == '?' || tag.back() == '/') continue;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty();
}

}  // namespace

TEST(DrawSvg, IsBalancedAndShowsHostsGpusNicsRanksAndRings) {
  Topology topology{{two_packages("h0", 1), two_packages("h1", 2)}, {{0, 0, {0, 1}, 0}, {1, 1, {4, 5}, 2}}};
  std::string svg = draw_svg(topology, possible_rings(topology));
  EXPECT_TRUE(is_balanced(svg));
  for (const char* words : {">h0<", ">h1<", ">gpu3<", ">gpu0 · r0<", ">10.0.2.2/24<", ">25 Gbit/s<",
                            ">rank 1<", ">ring over eth1 10.0.2.0/24<", "green lines: NVLink 40 GB/s"})
    EXPECT_TRUE(contains(svg, words)) << words;
  EXPECT_EQ(occurrences(svg, "marker-end"), 4u) << "two rings of two hosts have four arrows";
}

TEST(DrawSvg, EachNvlinkIsALine) {
  NodeTopology node = two_packages("h0", 1);
  EXPECT_EQ(occurrences(draw_svg({{node}, {}}), "<line"), 2u);
  node.links.pop_back();
  EXPECT_EQ(occurrences(draw_svg({{node}, {}}), "<line"), 1u);
}

TEST(DrawSvg, UsesNoExternalResources) {
  Topology topology{{two_packages("h0", 1)}, {}};
  std::string svg = draw_svg(topology);
  EXPECT_EQ(occurrences(svg, "http"), 1u) << "the name space only";
  EXPECT_FALSE(contains(svg, "href"));
}

TEST(DrawSvg, NamesFromOutsideCannotBreakTheDocument) {
  NodeTopology node = two_packages("<h&0>\"\xff", 1);
  node.gpus[0].name = "</text><script>";
  std::string svg = draw_svg({{node}, {}}, {{"<rail>", {"<a>", "b&c"}}});
  EXPECT_TRUE(is_balanced(svg));
  EXPECT_FALSE(contains(svg, "<script"));
}

TEST(DrawSvg, ManyHostsAndAnEmptyTopologyAreDrawnToo) {
  Topology topology;
  for (int i = 0; i < 20; ++i) topology.hosts.push_back(two_packages("h" + std::to_string(i), i + 1));
  EXPECT_TRUE(is_balanced(draw_svg(topology, possible_rings(topology))));
  EXPECT_TRUE(contains(draw_svg(topology, possible_rings(topology)), "20 hosts: h0 → h1"));
  EXPECT_TRUE(is_balanced(draw_svg({})));
}

}  // namespace ddl
