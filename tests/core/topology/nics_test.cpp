#include "core/topology/nics.hpp"

#include <gtest/gtest.h>
#include <net/if.h>
#include <unistd.h>

#include <fstream>

namespace ddl {
namespace {

namespace fs = std::filesystem;

// A sysfs of our own under the temporary directory: class/net/<name> and devices/...
class FakeSysfs {
 public:
  FakeSysfs() : root_(fs::temp_directory_path() / ("ddl-sysfs-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(net());
  }
  ~FakeSysfs() { fs::remove_all(root_); }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;

  fs::path net() const { return root_ / "class/net"; }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << '\n';
  }
  void directory(const fs::path& dir) { fs::create_directories(root_ / dir); }
  void link(const fs::path& from, const fs::path& to) {
    fs::create_directory_symlink(root_ / to, root_ / from);
  }

 private:
  fs::path root_;
};

constexpr unsigned kAlive = IFF_UP | IFF_RUNNING;

InterfaceFacts interface(const std::string& name, unsigned flags = kAlive,
                         const std::string& address = "10.0.1.3") {
  InterfaceFacts facts{name, flags, {}, {}};
  if (!address.empty()) facts.addresses = {address}, facts.prefixes = {24};
  return facts;
}

Nic made_up(const std::string& name, const std::string& kind = "ethernet") {
  Nic nic;
  nic.name = name;
  nic.kind = kind;
  nic.up = nic.running = true;
  nic.loopback = kind == "loopback";
  nic.address = "10.0.1.3";
  nic.prefix = 24;
  return nic;
}

std::vector<std::string> names_of(const std::vector<Nic>& nics) {
  std::vector<std::string> names;
  for (const Nic& nic : nics) names.push_back(nic.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST(Nics, AnEthernetCardHasSpeedBusIdAndNumaNodeFromSysfs) {
  FakeSysfs sysfs;
  sysfs.write("devices/pci0000:3a/0000:3b:00.0/numa_node", "1");
  sysfs.write("class/net/eth0/speed", "25000");
  sysfs.write("class/net/eth0/type", "1");
  sysfs.link("class/net/eth0/device", "devices/pci0000:3a/0000:3b:00.0");
  Nic nic = describe_nics({interface("eth0")}, sysfs.net(), {}).at(0);
  EXPECT_EQ(nic.kind, "ethernet");
  EXPECT_EQ(nic.gbit, 25);
  EXPECT_EQ(nic.pci, "0000:3b:00.0");
  EXPECT_EQ(nic.numa, 1);
  EXPECT_EQ(nic.sources.at("gbit"), "sysfs");
  EXPECT_EQ(nic.sources.at("address"), "getifaddrs");
  EXPECT_TRUE(nic.notes.empty());
}

TEST(Nics, AVirtioCardIsFoundOneLevelBelowItsPciDevice) {
  FakeSysfs sysfs;
  sysfs.directory("devices/pci0000:00/0000:00:03.0/virtio2");
  sysfs.directory("class/net/eth0");
  sysfs.link("class/net/eth0/device", "devices/pci0000:00/0000:00:03.0/virtio2");
  EXPECT_EQ(describe_nics({interface("eth0")}, sysfs.net(), {}).at(0).pci, "0000:00:03.0");
}

TEST(Nics, KindsAreReadFromSysfs) {
  FakeSysfs sysfs;
  sysfs.directory("class/net/br0/bridge");
  sysfs.directory("class/net/bond0/bonding");
  sysfs.write("class/net/ib0/type", "32");
  sysfs.write("class/net/veth0/type", "1");
  sysfs.write("class/net/eth0.7/uevent", "INTERFACE=eth0.7\nDEVTYPE=vlan");
  sysfs.write("class/net/tun0/tun_flags", "0x1");
  sysfs.write("class/net/docker0/type", "1");
  std::vector<std::string> kinds;
  for (const char* name : {"br0", "bond0", "ib0", "veth0", "eth0.7", "tun0", "docker0"})
    kinds.push_back(describe_nics({interface(name)}, sysfs.net(), {}).at(0).kind);
  EXPECT_EQ(kinds, (Names{"bridge", "bond", "infiniband", "virtual", "vlan", "tunnel", "docker"}));
}

TEST(Nics, ASpeedThatSysfsLacksComesFromTheDriver) {
  FakeSysfs sysfs;
  sysfs.write("class/net/eth0/speed", "-1");
  AskDriver driver = [](const std::string&) { return DriverFacts{10, "veth"}; };
  Nic nic = describe_nics({interface("eth0")}, sysfs.net(), driver).at(0);
  EXPECT_EQ(nic.gbit, 10);
  EXPECT_EQ(nic.sources.at("gbit"), "ethtool");
}

TEST(Nics, AMissingSysfsIsANoteAndNoFailure) {
  Nic nic = describe_nics({interface("eth0")}, "/nonexistent/sysfs", {}).at(0);
  EXPECT_EQ(nic.kind, "unknown");
  EXPECT_EQ(nic.gbit, 0);
  EXPECT_EQ(nic.address, "10.0.1.3");
  EXPECT_EQ(nic.notes.size(), 2u);
  EXPECT_EQ(rail_candidates({nic}, {}).size(), 1u)
      << "an interface that works is a rail even if sysfs is hidden";
}

TEST(Nics, ABridgeIsRecognisedByItsDriverWhenSysfsIsHidden) {
  AskDriver driver = [](const std::string&) { return DriverFacts{0, "bridge"}; };
  EXPECT_EQ(describe_nics({interface("br7")}, "/nonexistent/sysfs", driver).at(0).kind, "bridge");
}

TEST(Nics, FurtherAddressesAreNoted) {
  InterfaceFacts facts = interface("eth0");
  facts.addresses.push_back("10.9.0.1");
  facts.prefixes.push_back(16);
  Nic nic = describe_nics({facts}, "/nonexistent/sysfs", {}).at(0);
  EXPECT_EQ(nic.address, "10.0.1.3");
  EXPECT_NE(nic.notes.at(0).find("10.9.0.1/16"), std::string::npos);
}

TEST(Nics, TheListOfThisHostContainsItsLoopback) {
  for (const Nic& nic : list_nics())
    if (nic.loopback) {
      EXPECT_EQ(nic.kind, "loopback");
      return;
    }
  GTEST_SKIP() << "this host has no loopback interface";
}

TEST(Rails, LoopbackDockerAndBridgesAreSkippedEachWithItsReason) {
  std::vector<Nic> nics = {made_up("lo", "loopback"), made_up("docker0", "docker"), made_up("br0", "bridge"),
                           made_up("eth0"), made_up("veth1", "virtual")};
  RailChoice choice = choose_rails(nics, {});
  EXPECT_EQ(names_of(choice.rails), (Names{"eth0", "veth1"}));
  ASSERT_EQ(choice.skipped.size(), 3u);
  EXPECT_EQ(choice.skipped[0].name, "lo");
  EXPECT_NE(choice.skipped[0].reason.find("loopback"), std::string::npos);
  EXPECT_NE(choice.skipped[1].reason.find("docker"), std::string::npos);
  EXPECT_NE(choice.skipped[2].reason.find("bridge"), std::string::npos);
}

TEST(Rails, InterfacesThatAreDownOrWithoutLinkOrAddressAreSkipped) {
  std::vector<Nic> nics = {made_up("down0"), made_up("dead0"), made_up("bare0")};
  nics[0].up = false;
  nics[1].running = false;
  nics[2].address.clear();
  RailChoice choice = choose_rails(nics, {});
  EXPECT_TRUE(choice.rails.empty());
  ASSERT_EQ(choice.skipped.size(), 3u);
  EXPECT_EQ(choice.skipped[0].reason, "down");
  EXPECT_NE(choice.skipped[1].reason.find("not running"), std::string::npos);
  EXPECT_NE(choice.skipped[2].reason.find("address"), std::string::npos);
}

TEST(Rails, WantedNamesSelectInTheirOrderAndMissingOnesAreReported) {
  std::vector<Nic> nics = {made_up("eth0"), made_up("eth1"), made_up("eth2"), made_up("lo", "loopback")};
  RailChoice choice = choose_rails(nics, {"eth2", "eth9", "lo", "eth0"});
  EXPECT_EQ(names_of(choice.rails), (Names{"eth2", "lo", "eth0"}));
  EXPECT_EQ(choice.missing, (Names{"eth9"}));
  EXPECT_EQ(choice.skipped, (std::vector<SkippedNic>{{"eth1", "not among the wanted rails"}}));
}

TEST(Rails, AWantedInterfaceThatIsDownStaysSkipped) {
  std::vector<Nic> nics = {made_up("eth0")};
  nics[0].up = false;
  RailChoice choice = choose_rails(nics, {"eth0"});
  EXPECT_TRUE(choice.rails.empty());
  EXPECT_EQ(choice.skipped, (std::vector<SkippedNic>{{"eth0", "down"}}));
}

TEST(Rails, TheSubnetIsTheMaskedAddress) {
  Nic nic = made_up("eth0");
  EXPECT_EQ(subnet_of(nic), "10.0.1.0/24");
  nic.address = "172.19.200.77";
  nic.prefix = 12;
  EXPECT_EQ(subnet_of(nic), "172.16.0.0/12");
  nic.prefix = 32;
  EXPECT_EQ(subnet_of(nic), "172.19.200.77/32");
  nic.prefix = 0;
  EXPECT_EQ(subnet_of(nic), "0.0.0.0/0");
  nic.address.clear();
  EXPECT_EQ(subnet_of(nic), "");
}

TEST(Nics, OnlyHardwareIsBelievedItsSpeed) {
  for (const char* kind : {"ethernet", "infiniband", "bond", "virtual", "tunnel", "bridge", "unknown"}) {
    Nic nic = made_up("r0", kind);
    nic.gbit = 10;
    EXPECT_EQ(rated_gbit(nic),
              nic.kind == "virtual" || nic.kind == "tunnel" || nic.kind == "bridge" || nic.kind == "unknown"
                  ? 0
                  : 10)
        << kind;
  }
}

}  // namespace ddl
