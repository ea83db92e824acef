#include "core/topology/topology_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"

namespace ddl {
namespace {

// A node in which no field has its default, so that a field forgotten in the JSON form is noticed.
NodeTopology full_node() {
  NodeTopology node;
  node.host = "h1";
  node.memory = 1ull << 40;
  node.packages = {{3, 4, "CPU model", {0, 1, 9}, {{"model", "hwloc"}}}};
  node.numa = {{5, 6, 3, 1ull << 39, {0, 1}, {{"memory", "hwloc"}}}};
  node.cores = {{7, 3, 5, {0, 1}}};
  node.gpus = {{2, "P100", "NVIDIA", "0002:01:00.0", 5, 3, {{"name", "NVML"}}}};
  Nic nic{"eth0", "10.0.1.3",          24,        true, true, true, 2.5, "virtual", "0000:3b:00.0",
          1,      {{"gbit", "sysfs"}}, {"a note"}};
  node.nics = {{nic, 3, 7.9, {{"gpu2", "switch"}}, {{"distances", "hwloc"}}}};
  node.links = {{"gpu0", "gpu1", 40, "NVLink", "hwloc"}};
  node.sources = {{"host", "given"}};
  node.notes = {"NVML absent"};
  return node;
}

}  // namespace

TEST(TopologyJson, ANodeComesBackAsItWas) {
  NodeTopology node = full_node();
  EXPECT_EQ(parse_node_topology(json_text(node)), node);
}

TEST(TopologyJson, EveryFieldIsWritten) {
  nlohmann::json json = json_of(full_node());
  EXPECT_EQ(json.size(), 10u);
  EXPECT_EQ(json.at("nics").at(0).at("nic").size(), 12u);
  EXPECT_EQ(json.at("gpus").at(0).size(), 7u);
  EXPECT_EQ(json.at("links").at(0).at("source"), "hwloc");
}

TEST(TopologyJson, ATopologyWithRanksComesBackAsItWas) {
  Topology topology{{full_node(), full_node()}, {{0, 1, {4, 5}, 2}, {1, 0, {}, -1}}};
  EXPECT_EQ(parse_topology(json_text(topology)), topology);
}

TEST(TopologyJson, AbsentMembersKeepTheirDefaults) {
  NodeTopology node = parse_node_topology(R"({"host": "h7", "gpus": [{"index": 1}]})");
  EXPECT_EQ(node.host, "h7");
  EXPECT_EQ(node.gpus.at(0).numa, -1);
  EXPECT_TRUE(node.nics.empty());
}

TEST(TopologyJson, GarbageIsAnErrorAndNoCrash) {
  for (const char* text : {"", "{", "[]", "7", R"({"host": 7})", R"({"gpus": {}})", R"({"nics": [7]})"})
    EXPECT_THROW(parse_node_topology(text), Error) << text;
  EXPECT_THROW(parse_topology(R"({"hosts": [], "ranks": [{"rank": 0, "host": 0}]})"), Error);
}

TEST(TopologyJson, AHostNameThatIsNoUtf8IsStillWritten) {
  NodeTopology node;
  node.host = "h\xff";
  EXPECT_NO_THROW(parse_node_topology(json_text(node)));
}

}  // namespace ddl
