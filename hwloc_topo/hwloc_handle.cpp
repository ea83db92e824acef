#include "hwloc_topo/hwloc_handle.hpp"

#include <fmt/format.h>

#include <cmath>

namespace ddl::hwloc {
namespace {

// The CPU-side object an I/O object hangs below; the object itself when it has CPUs.
hwloc_obj_t cpu_side(const Handle& handle, hwloc_obj_t object) {
  return object->cpuset ? object : hwloc_get_non_io_ancestor_obj(handle.get(), object);
}

hwloc_obj_t common_ancestor(hwloc_obj_t a, hwloc_obj_t b) {
  for (hwloc_obj_t above_a = a; above_a; above_a = above_a->parent)
    for (hwloc_obj_t above_b = b; above_b; above_b = above_b->parent)
      if (above_a == above_b) return above_a;
  return nullptr;
}

}  // namespace

std::vector<hwloc_obj_t> objects(const Handle& handle, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> found;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(handle.get(), type, object));)
    found.push_back(object);
  return found;
}

std::string info(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value ? value : "";
}

std::string bus_id(const PciAttributes& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

double link_gbytes(const PciAttributes& pci) {
  return std::round(static_cast<double>(pci.linkspeed) * 1000) /
         1000;  // hwloc keeps it as float: 15.753846...
}

std::vector<int> numbers_in(hwloc_const_bitmap_t set) {
  std::vector<int> numbers;
  if (!set || hwloc_bitmap_weight(set) < 0) return numbers;  // infinite: not a real set
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) numbers.push_back(i);
  return numbers;
}

std::vector<hwloc_obj_t> host_numa_nodes(const Handle& handle) {
  std::vector<hwloc_obj_t> nodes;
  for (hwloc_obj_t node : objects(handle, HWLOC_OBJ_NUMANODE))
    if (!node->subtype || std::string(node->subtype) != "GPUMemory") nodes.push_back(node);
  return nodes;
}

int numa_of(const Handle& handle, hwloc_obj_t object) {
  hwloc_obj_t place = cpu_side(handle, object);
  if (!place) return -1;
  const std::vector<hwloc_obj_t> nodes = host_numa_nodes(handle);
  int found = -1, fewest = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const int cpus = hwloc_bitmap_weight(nodes[i]->cpuset);
    if (cpus == 0 || !hwloc_bitmap_intersects(place->nodeset, nodes[i]->nodeset)) continue;
    if (!hwloc_bitmap_isincluded(place->cpuset, nodes[i]->cpuset)) return -1;
    if (found < 0 || cpus < fewest) found = static_cast<int>(i), fewest = cpus;
  }
  return found;
}

int package_of(const Handle& handle, hwloc_obj_t object) {
  hwloc_obj_t place = cpu_side(handle, object);
  std::vector<hwloc_obj_t> packages = objects(handle, HWLOC_OBJ_PACKAGE);
  if (packages.size() <= 1) return 0;  // a node without package objects is described as one package
  for (std::size_t i = 0; place && i < packages.size(); ++i)
    if (hwloc_bitmap_weight(place->cpuset) > 0 && hwloc_bitmap_isincluded(place->cpuset, packages[i]->cpuset))
      return static_cast<int>(i);
  return -1;
}

Distance distance_between(const Handle& handle, hwloc_obj_t a, hwloc_obj_t b) {
  hwloc_obj_t above = common_ancestor(a, b);
  if (!above) return Distance::system;
  if (above->type == HWLOC_OBJ_PCI_DEVICE) return Distance::switch_;
  if (above->type == HWLOC_OBJ_BRIDGE)
    return above->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST ? Distance::bridge : Distance::switch_;
  if (numa_of(handle, above) >= 0) return Distance::numa;
  return package_of(handle, above) >= 0 ? Distance::package : Distance::system;
}

hwloc_obj_t pci_device_of(hwloc_obj_t object) {
  while (object && object->type != HWLOC_OBJ_PCI_DEVICE && !object->cpuset) object = object->parent;
  return object && object->type == HWLOC_OBJ_PCI_DEVICE ? object : nullptr;
}

int gpu_at(const NodeTopology& node, hwloc_obj_t pci_device) {
  if (!pci_device) return -1;
  std::string id = bus_id(pci_device->attr->pcidev);
  for (const Gpu& gpu : node.gpus)
    if (gpu.pci == id) return gpu.index;
  return -1;
}

}  // namespace ddl::hwloc
