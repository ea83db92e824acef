// The network interfaces of this host, and which of them can carry a ring between hosts.
//
// Interfaces are enumerated here (getifaddrs, /sys/class/net, ethtool) and not taken from hwloc, which hides
// virtual ones. A fact that cannot be read (containers often lack sysfs files) stays unknown and leaves a
// note; nothing fails. The rule a user can break: print the skipped interfaces with the chosen ones, or
// nobody can tell why a rail is missing. Thread safety: everything here returns values; no state.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ddl {

/// Where a fact comes from, by the name of the fact: {"gbit", "sysfs"}.
/// The sources in use: "hwloc", "hwloc (HWLOC_XMLFILE)", "sysfs", "getifaddrs", "gethostname", "ethtool",
/// "PMIx", "NVML", "given".
using Sources = std::map<std::string, std::string>;

struct Nic {
  std::string name;
  std::string address;   // IPv4, dotted; "" when there is none
  int prefix = 0;        // length of the network part of the address
  bool up = false;       // set up by the administrator
  bool running = false;  // the link works
  bool loopback = false;
  double gbit = 0;  // Gbit/s; 0 when unknown. A rate imposed by traffic shaping does not show.
  // One of ethernet, infiniband, virtual, bond, vlan, wireless, tunnel, bridge, docker, loopback, unknown.
  std::string kind;
  std::string pci;  // bus id "0000:3b:00.0"; "" when it is not a PCI device
  int numa = -1;    // OS index of its NUMA node; -1 when unknown
  Sources sources;
  std::vector<std::string> notes;  // facts that could not be read, and why
  friend bool operator==(const Nic&, const Nic&) = default;
};

/// What the socket layer says about one interface.
struct InterfaceFacts {
  std::string name;
  unsigned flags = 0;                  // IFF_*
  std::vector<std::string> addresses;  // IPv4, dotted
  std::vector<int> prefixes;           // one per address
};

/// What the driver says; asked only for what sysfs leaves open.
struct DriverFacts {
  double gbit = 0;     // 0: unknown
  std::string driver;  // "": unknown
};
using AskDriver = std::function<DriverFacts(const std::string& interface_name)>;

/// All interfaces of this host (of this network namespace), in the kernel's order.
std::vector<Nic> list_nics();

/// The same from given facts: `sysfs_net` stands for /sys/class/net. `driver` may be empty.
std::vector<Nic> describe_nics(const std::vector<InterfaceFacts>& interfaces,
                               const std::filesystem::path& sysfs_net, const AskDriver& driver);

struct SkippedNic {
  std::string name;
  std::string reason;
  friend bool operator==(const SkippedNic&, const SkippedNic&) = default;
};

/// Which interfaces can be rails, and why the others cannot.
struct RailChoice {
  std::vector<Nic> rails;
  std::vector<SkippedNic> skipped;
  std::vector<std::string> missing;  // wanted names that this host does not have
};

/// Without `wanted`: every interface that is up, running, has an address and is no loopback, docker or
/// bridge. With `wanted` (DDL_RAILS): these names in this order; a name overrides the kind (a loopback may be
/// wanted for a trial), but an interface that is down or has no address stays skipped.
RailChoice choose_rails(const std::vector<Nic>& nics, const std::vector<std::string>& wanted);

/// choose_rails(nics, wanted).rails
std::vector<Nic> rail_candidates(const std::vector<Nic>& nics, const std::vector<std::string>& wanted);

/// What the link can carry, Gbit/s; 0 when unknown, and for interfaces that are no hardware: a virtual one
/// states some speed or other.
double rated_gbit(const Nic& nic);

/// The network of the interface's address, "10.0.1.0/24"; "" without an address.
std::string subnet_of(const Nic& nic);

}  // namespace ddl
