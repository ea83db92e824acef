// What both pictures share: which device and rank is shown where, and how facts are worded.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/topology/draw.hpp"

namespace ddl {

/// A part of a host with its own memory (a NUMA node, or a package where no NUMA nodes are known) and what is
/// in it.
struct PlaceView {
  std::string title;  // "package 0 · NUMA 1"
  std::string model;  // of its CPUs
  Bytes memory = 0;
  std::vector<Core> cores;
  std::vector<int> pus;
  std::vector<Gpu> gpus;
  std::vector<Rank> ranks;    // bound to PUs of this place alone
  std::vector<int> packages;  // the packages it is in or contains
};

struct HostView {
  const NodeTopology* node = nullptr;
  std::vector<PlaceView> places;
  std::vector<Gpu> gpus_elsewhere;  // their place is unknown
  std::vector<Rank> unbound_ranks;  // not bound, or bound to several places
  std::map<int, std::vector<Rank>> ranks_of_gpu;
  std::vector<NodeNic> nics;             // shown: usable, or from a description
  std::vector<SkippedNic> skipped_nics;  // not rails, with the reason
};

HostView view_host(const Topology& topology, HostIndex host);

/// Links of one kind and rate, drawn or listed together; PCIe is left out (the devices' lines show it).
struct LinkGroup {
  std::string kind;
  double gbytes = 0;
  std::vector<std::pair<std::string, std::string>> pairs;
  bool all_gpu_pairs = false;  // every pair of the host's GPUs and nothing else
};
std::vector<LinkGroup> group_links(const NodeTopology& node);
/// GB/s of the device's PCIe link; 0 unknown.
double pcie_of(const NodeTopology& node, const std::string& device);

/// Whether two hosts differ in names, addresses, size of memory and notes only.
bool are_alike(const NodeTopology& a, const NodeTopology& b);

std::string size_words(Bytes bytes);                                  // "63.9 GiB"
std::string speed_words(const Nic& nic);                              // "25 Gbit/s", "speed unknown"
std::string rate_words(double gbytes);                                // "15.8 GB/s"
std::string count_words(std::size_t count, const std::string& noun);  // "1 core", "8 cores"
std::string range_words(std::vector<int> numbers);                    // "0-3,8-11"
std::string address_words(const Nic& nic);                            // "10.0.1.3/24", "no address"
/// "8 cores, 32 PUs, 128 GiB, 4 GPUs"
std::string summary_words(const NodeTopology& node);
/// "NUMA 0, nearest gpu0 gpu1"; "" when nothing is known.
std::string place_words(const NodeNic& nic);

}  // namespace ddl
