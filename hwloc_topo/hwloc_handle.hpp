// What the files of this folder share: an owned hwloc topology and short questions to it. Not for other
// folders.
#pragma once

#include <hwloc.h>

#include <string>
#include <utility>
#include <vector>

#include "core/topology/node_topology.hpp"

namespace ddl::hwloc {

/// A loaded topology; destroyed with the handle. `source` is what its facts are attributed to.
class Handle {
 public:
  explicit Handle(hwloc_topology_t topology, std::string source = "hwloc")
      : topology_(topology), source_(std::move(source)) {}
  ~Handle() { hwloc_topology_destroy(topology_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  hwloc_topology_t get() const { return topology_; }
  const std::string& source() const { return source_; }
  bool is_this_system() const { return hwloc_topology_is_thissystem(topology_); }

 private:
  hwloc_topology_t topology_;
  std::string source_;
};

/// The objects of one type, in hwloc's logical order.
std::vector<hwloc_obj_t> objects(const Handle& handle, hwloc_obj_type_t type);
/// The value of an info attribute; "" without it.
std::string info(hwloc_obj_t object, const char* name);
using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;
/// "0002:01:00.0"
std::string bus_id(const PciAttributes& pci);
/// GB/s of a PCI device's link, to three decimals; 0 when unknown.
double link_gbytes(const PciAttributes& pci);
std::vector<int> numbers_in(hwloc_const_bitmap_t set);

/// NUMA nodes that are host memory: not the memory of GPUs, which some machines present as nodes too.
std::vector<hwloc_obj_t> host_numa_nodes(const Handle& handle);
/// Index in NodeTopology of the one NUMA node or package that `object` (any, I/O too) belongs to; -1 when it
/// is several. Where CPUs have memory of several kinds, the node with the fewest CPUs counts, the first of
/// equals.
int numa_of(const Handle& handle, hwloc_obj_t object);
int package_of(const Handle& handle, hwloc_obj_t object);
/// Distance between two objects of any kind, from their lowest common ancestor.
Distance distance_between(const Handle& handle, hwloc_obj_t a, hwloc_obj_t b);

// The steps of discovery; each fills its part of the node and adds notes.
void describe_cpus(const Handle& handle, NodeTopology& node);
void describe_gpus(const Handle& handle, NodeTopology& node);
void describe_nics(const Handle& handle, NodeTopology& node);
void describe_links(const Handle& handle, NodeTopology& node);

/// The GPU of the node at this PCI device; -1 when it is none of them.
int gpu_at(const NodeTopology& node, hwloc_obj_t pci_device);
/// The PCI device above an OS device (or the object itself); null when there is none.
hwloc_obj_t pci_device_of(hwloc_obj_t object);

}  // namespace ddl::hwloc
