// What a machine looks like, as a value: NodeTopology is one host, Topology all hosts of a job with their
// ranks.
//
// Every part carries `sources`: which of its facts came from where ("hwloc", "sysfs", "getifaddrs",
// "ethtool", "PMIx", "NVML", "given"); `notes` lists what could not be read, and why. The rule a user can
// break: `index` counts from 0 within one host and is what the other fields refer to (package, numa, "gpu0");
// `os_index` is the operating system's number and may have gaps. PUs are always OS numbers. Thread safety and
// ownership: plain values.
#pragma once

#include <string>
#include <vector>

#include "core/base/types.hpp"
#include "core/topology/nics.hpp"

namespace ddl {

struct Package {
  int index = 0;
  int os_index = -1;
  std::string model;
  std::vector<int> pus;
  Sources sources;
  friend bool operator==(const Package&, const Package&) = default;
};

struct NumaNode {
  int index = 0;
  int os_index = -1;
  int package = -1;  // the package that contains it, else -1 (unknown, or it spans several)
  Bytes memory = 0;
  std::vector<int> pus;
  Sources sources;
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

struct Core {
  int index = 0;
  int package = -1;
  int numa = -1;
  std::vector<int> pus;
  friend bool operator==(const Core&, const Core&) = default;
};

struct Gpu {
  int index = 0;
  std::string name;    // model
  std::string vendor;  // NVIDIA, AMD, Intel
  std::string pci;     // bus id "0002:01:00.0"
  int numa = -1;
  int package = -1;
  Sources sources;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// How far apart two devices are, nearest first; the words of the trade in brackets.
///   switch (PIX, PXB: below one PCIe switch), bridge (PHB: below one host bridge), numa (NODE: one NUMA
///   node), package (one package), system (SYS: across the links between packages)
enum class Distance { switch_, bridge, numa, package, system };
std::string name_of(Distance distance);

/// The way from a NIC to a GPU or a NUMA node.
struct DistanceTo {
  std::string to;        // "gpu0", "numa1"
  std::string distance;  // name_of(Distance)
  friend bool operator==(const DistanceTo&, const DistanceTo&) = default;
};

struct NodeNic {
  Nic nic;
  int package = -1;
  double pcie_gbytes = 0;  // GB/s of its PCIe link; 0 unknown
  std::vector<DistanceTo> distances;
  Sources sources;
  friend bool operator==(const NodeNic&, const NodeNic&) = default;
};

/// A connection inside the host. Ends are named by kind and index: "gpu0", "package1", "nvswitch0", or a
/// NIC's name.
struct DeviceLink {
  std::string a, b;
  double gbytes = 0;  // GB/s per direction
  std::string kind;   // NVLink, XGMI, XeLink, PCIe, "NVLink through switches"
  std::string source;
  friend bool operator==(const DeviceLink&, const DeviceLink&) = default;
};

struct NodeTopology {
  std::string host;
  Bytes memory = 0;
  std::vector<Package> packages;
  std::vector<NumaNode> numa;
  std::vector<Core> cores;
  std::vector<Gpu> gpus;
  std::vector<NodeNic> nics;
  std::vector<DeviceLink> links;
  Sources sources;                 // of host, memory, cores
  std::vector<std::string> notes;  // what could not be read, and why
  friend bool operator==(const NodeTopology&, const NodeTopology&) = default;
};

/// Where a rank lives.
struct RankPlace {
  Rank rank = 0;
  HostIndex host = 0;    // index in Topology::hosts
  std::vector<int> pus;  // what it is bound to; empty: not bound
  int gpu = -1;          // index in NodeTopology::gpus; -1: none
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

struct Topology {
  std::vector<NodeTopology> hosts;
  std::vector<RankPlace> ranks;  // may be empty: no job yet
  friend bool operator==(const Topology&, const Topology&) = default;
};

/// The PUs of package or NUMA node `index` of this host, for binding; throws Error when there is none.
std::vector<int> pus_of_package(const NodeTopology& node, int index);
std::vector<int> pus_of_numa(const NodeTopology& node, int index);
/// "0-3,8" as numbers, as PMIx writes the PUs a rank is bound to; empty when it is something else.
std::vector<int> parse_pu_ranges(const std::string& text);
/// All PUs of the host, ascending.
std::vector<int> all_pus(const NodeTopology& node);

}  // namespace ddl
