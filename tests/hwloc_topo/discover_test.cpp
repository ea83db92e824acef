#include "hwloc_topo/discover.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/error.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace ddl {
namespace {

std::string machine(const std::string& name) {
  return std::string(DDL_SOURCE_DIR) + "/tests/hwloc_topo/machines/" + name;
}

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// A machine file with one piece of text replaced, for the length of a test.
class AlteredMachine {
 public:
  AlteredMachine(const std::string& name, const std::string& from, const std::string& to)
      : file_(std::filesystem::temp_directory_path() / ("ddl-machine-" + std::to_string(getpid()) + ".xml")) {
    std::string text = text_of(machine(name));
    std::size_t at = text.find(from);
    if (at == std::string::npos) throw std::logic_error("the fixture has changed");
    std::ofstream(file_) << text.replace(at, from.size(), to);
  }
  ~AlteredMachine() { std::filesystem::remove(file_); }
  AlteredMachine(const AlteredMachine&) = delete;
  AlteredMachine& operator=(const AlteredMachine&) = delete;
  std::string file() const { return file_.string(); }

 private:
  std::filesystem::path file_;
};

// GB/s of the link of this kind between two ends; 0 when there is none.
double rate(const NodeTopology& node, const std::string& a, const std::string& b, const std::string& kind) {
  for (const DeviceLink& link : node.links)
    if (link.kind == kind && ((link.a == a && link.b == b) || (link.a == b && link.b == a)))
      return link.gbytes;
  return 0;
}

std::string distance(const NodeTopology& node, const std::string& nic_name, const std::string& to) {
  for (const NodeNic& nic : node.nics)
    for (const DistanceTo& way : nic.distances)
      if (nic.nic.name == nic_name && way.to == to) return way.distance;
  return "none";
}

bool has_note(const NodeTopology& node, const std::string& words) {
  return std::any_of(node.notes.begin(), node.notes.end(),
                     [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

// The named variable for the length of a test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

// hwloc's PCI plugin leaks about 1 KB of libpciaccess each time it looks at a live system, and is unloaded
// before the leak checker can name it. The described machines do not use it, so leaks of our own show there.
NodeTopology discover_live_node() {
#ifdef __SANITIZE_ADDRESS__
  __lsan::ScopedDisabler leaks_of_pciaccess;
#endif
  return discover_node();
}

}  // namespace

TEST(Discover, ThisNodeHasItsNameItsPusAndALoopback) {
  NodeTopology node = discover_live_node();
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  EXPECT_EQ(node.host, name);
  EXPECT_FALSE(node.packages.empty());
  EXPECT_FALSE(node.cores.empty());
  std::vector<int> pus = all_pus(node);
  for (int pu : binding_of_this_process()) EXPECT_TRUE(std::binary_search(pus.begin(), pus.end(), pu)) << pu;
  EXPECT_EQ(node.nics.size(), list_nics().size());
}

TEST(Discover, NvlinkPairsShowWithTheirBandwidth) {
  NodeTopology node = discover_from_xml(machine("four_gpus_nvlink.xml"));
  ASSERT_EQ(node.gpus.size(), 4u);
  EXPECT_EQ(rate(node, "gpu0", "gpu1", "NVLink"), 40);
  EXPECT_EQ(rate(node, "gpu2", "gpu3", "NVLink"), 40);
  EXPECT_EQ(rate(node, "gpu1", "gpu2", "NVLink"), 0);
  EXPECT_EQ(rate(node, "gpu0", "package0", "NVLink"), 40);
  EXPECT_EQ(rate(node, "gpu3", "package1", "NVLink"), 40);
  EXPECT_EQ(rate(node, "gpu3", "package0", "NVLink"), 0);
  EXPECT_EQ(rate(node, "gpu0", "package0", "PCIe"), 15.754);
}

TEST(Discover, ALinkRemovedFromTheFileIsGoneAndTheOthersStay) {
  AlteredMachine cut("four_gpus_nvlink.xml", R"(<u64values length="26">1000000 40000 0 0 40000 0 )",
                     R"(<u64values length="22">1000000 0 0 0 40000 0 )");
  NodeTopology node = discover_from_xml(cut.file());
  EXPECT_EQ(rate(node, "gpu0", "gpu1", "NVLink"), 0);
  EXPECT_TRUE(has_note(node, "one direction only"));
  EXPECT_EQ(rate(node, "gpu2", "gpu3", "NVLink"), 40);
  EXPECT_EQ(rate(node, "gpu0", "package0", "NVLink"), 40);
}

TEST(Discover, GpusBehindSwitchesAreConnectedInPairs) {
  NodeTopology node = discover_from_xml(machine("four_gpus_nvswitch.xml"));
  EXPECT_EQ(rate(node, "gpu0", "gpu3", "NVLink through switches"), 150);
  EXPECT_EQ(rate(node, "gpu0", "switch1", "NVLink"), 75);
  EXPECT_EQ(rate(node, "gpu0", "gpu3", "NVLink"), 0);
}

TEST(Discover, DevicesKnowTheirPlace) {
  NodeTopology node = discover_from_xml(machine("four_gpus_nvlink.xml"));
  EXPECT_EQ(node.host, "tworoom");
  EXPECT_EQ(node.gpus[2].pci, "0001:02:00.0");
  EXPECT_EQ(node.gpus[2].package, 1);
  EXPECT_EQ(node.gpus[2].numa, 1);
  EXPECT_EQ(node.gpus[2].vendor, "NVIDIA");
  EXPECT_EQ(node.numa[1].os_index, 8);
  EXPECT_EQ(node.numa[1].memory, 1ull << 32);
  EXPECT_EQ(pus_of_numa(node, 1), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(pus_of_package(node, 0), (std::vector<int>{0, 1, 2, 3}));
}

TEST(Discover, NicsOfADescribedMachineComeFromItAndSaySo) {
  NodeTopology node = discover_from_xml(machine("four_gpus_nvlink.xml"));
  ASSERT_EQ(node.nics.size(), 2u) << "one per card: mlx5_0 is the same card as ib0";
  EXPECT_EQ(node.nics[0].nic.name, "eth0");
  EXPECT_EQ(node.nics[1].nic.kind, "infiniband");
  EXPECT_NE(node.nics[0].nic.sources.at("name").find("HWLOC_XMLFILE"), std::string::npos);
  EXPECT_TRUE(node.nics[0].nic.address.empty());
}

TEST(Discover, DistancesFollowTheTree) {
  NodeTopology node = discover_from_xml(machine("four_gpus_nvlink.xml"));
  EXPECT_EQ(distance(node, "eth0", "gpu0"), "switch");
  EXPECT_EQ(distance(node, "eth0", "gpu1"), "bridge");
  EXPECT_EQ(distance(node, "eth0", "gpu2"), "system");
  EXPECT_EQ(distance(node, "eth0", "numa0"), "numa");
  EXPECT_EQ(distance(node, "ib0", "numa0"), "system");
}

TEST(Discover, ADisplayAdapterIsNoGpu) {
  NodeTopology node = discover_from_xml(machine("four_gpus_nvlink.xml"));
  EXPECT_TRUE(has_note(node, "display adapter 0000:00:09.0"));
}

TEST(Discover, TheVariablesOfHwlocAreHonoured) {
  {
    ScopedVariable file("HWLOC_XMLFILE", machine("four_gpus_nvlink.xml"));
    EXPECT_EQ(discover_node().host, "tworoom");
  }
  ScopedVariable synthetic("HWLOC_SYNTHETIC", "pack:3 numa:2 core:4 pu:2");
  NodeTopology node = discover_node();
  EXPECT_EQ(node.packages.size(), 3u);
  EXPECT_EQ(node.numa.size(), 6u);
  EXPECT_EQ(node.numa[3].package, 1);
  EXPECT_EQ(node.cores.size(), 24u);
  EXPECT_EQ(node.cores[23].package, 2);
  EXPECT_EQ(node.cores[23].numa, 5);
  EXPECT_TRUE(node.nics.empty()) << "this machine's NICs do not belong to a made-up one";
}

TEST(Discover, ADescriptionWithoutPackagesOrCoresStillGivesPlaces) {
  NodeTopology node = discover_from_synthetic("numa:2 pu:3");
  EXPECT_EQ(node.packages.size(), 1u);
  EXPECT_EQ(node.cores.size(), 6u);
  EXPECT_EQ(node.cores[5].numa, 1);
  EXPECT_TRUE(has_note(node, "packages unknown"));
}

TEST(Discover, ACoreWithTwoKindsOfMemoryBelongsToTheFirst) {
  NodeTopology node = discover_from_synthetic("pack:2 [numa(memory=64GB)] [numa(memory=16GB)] core:4 pu:2");
  ASSERT_EQ(node.numa.size(), 4u);
  EXPECT_EQ(node.cores[0].numa, 0);
  EXPECT_EQ(node.cores[7].numa, 2);
  node = discover_from_synthetic("[numa] pack:2 [numa] core:2 pu:1");
  EXPECT_EQ(node.cores[0].numa, 0);
  EXPECT_EQ(node.cores[3].numa, 1) << "not the node that all share";
}

TEST(Discover, ADescriptionThatCannotBeReadIsAnError) {
  EXPECT_THROW(discover_from_xml("/nonexistent/machine.xml"), Error);
  EXPECT_THROW(discover_from_xml(machine("../discover_test.cpp")), Error);
  EXPECT_THROW(discover_from_synthetic("nonsense"), Error);
  AlteredMachine damaged("four_gpus_nvlink.xml", "</topology>", "");
  EXPECT_THROW(discover_from_xml(damaged.file()), Error);
}

}  // namespace ddl
