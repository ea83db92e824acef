// GPUs and NICs with their place in the PCI tree.
#include <fmt/format.h>

#include <algorithm>

#include "hwloc_topo/hwloc_handle.hpp"

namespace ddl::hwloc {
namespace {

constexpr unsigned kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;
constexpr unsigned kVga = 0x0300, kAccelerator = 0x1200;  // PCI class and subclass
constexpr unsigned kInfinibandClass = 0x0207;

std::string vendor_name(unsigned id) {
  switch (id) {
    case kNvidia:
      return "NVIDIA";
    case kAmd:
      return "AMD";
    case kIntel:
      return "Intel";
    default:
      return fmt::format("{:04x}", id);
  }
}

// A compute library's device (nvml0, cuda0, rsmi0, ze0) below a PCI device.
hwloc_obj_t compute_device(hwloc_obj_t pci) {
  for (hwloc_obj_t child = pci->io_first_child; child; child = child->next_sibling) {
    std::string subtype = child->subtype ? child->subtype : "";
    for (const char* known : {"NVML", "RSMI", "CUDA", "LevelZero"})
      if (subtype == known) return child;
  }
  return nullptr;
}

enum class Display { none, adapter, gpu };

// Server boards carry plain display adapters (and AMD made some): a VGA device counts when it is NVIDIA's or
// a compute library drives it.
Display display_kind(hwloc_obj_t pci) {
  unsigned pci_class = pci->attr->pcidev.class_id, vendor = pci->attr->pcidev.vendor_id;
  if (compute_device(pci)) return Display::gpu;
  if (pci_class == kAccelerator) return vendor == kAmd ? Display::gpu : Display::none;
  if (pci_class >> 8 != kVga >> 8) return Display::none;
  if (vendor == kNvidia) return Display::gpu;
  return pci_class != kVga && (vendor == kAmd || vendor == kIntel) ? Display::gpu : Display::adapter;
}

Gpu describe_gpu(const Handle& handle, hwloc_obj_t pci) {
  Gpu gpu;
  hwloc_obj_t device = compute_device(pci);
  if (device) gpu.name = info(device, "GPUModel");
  if (gpu.name.empty()) gpu.name = info(pci, "PCIDevice");
  gpu.vendor = vendor_name(pci->attr->pcidev.vendor_id);
  gpu.pci = bus_id(pci->attr->pcidev);
  gpu.numa = numa_of(handle, pci);
  gpu.package = package_of(handle, pci);
  for (const char* fact : {"vendor", "pci"}) gpu.sources[fact] = handle.source();
  if (!gpu.name.empty()) gpu.sources["name"] = handle.source();
  if (gpu.numa >= 0) gpu.sources["numa"] = handle.source();
  if (gpu.package >= 0) gpu.sources["package"] = handle.source();
  return gpu;
}

hwloc_obj_t pci_by_bus_id(const Handle& handle, const std::string& id) {
  return id.empty() ? nullptr : hwloc_get_pcidev_by_busidstring(handle.get(), id.c_str());
}

void measure_distances(const Handle& handle, const NodeTopology& node, hwloc_obj_t pci, NodeNic& nic) {
  for (const Gpu& gpu : node.gpus)
    if (hwloc_obj_t other = pci_by_bus_id(handle, gpu.pci))
      nic.distances.push_back(
          {fmt::format("gpu{}", gpu.index), name_of(distance_between(handle, pci, other))});
  std::vector<hwloc_obj_t> nodes = host_numa_nodes(handle);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    nic.distances.push_back({fmt::format("numa{}", i), name_of(distance_between(handle, pci, nodes[i]))});
  nic.sources["distances"] = handle.source();
}

void place_nic(const Handle& handle, const NodeTopology& node, hwloc_obj_t pci, NodeNic& nic) {
  int numa = numa_of(handle, pci);
  if (numa >= 0) {
    // sysfs gives the OS number; from here on it is our index, as in every other part of the node.
    nic.nic.numa = numa;
    nic.nic.sources["numa"] = handle.source();
  }
  nic.package = package_of(handle, pci);
  if (nic.package >= 0) nic.sources["package"] = handle.source();
  nic.pcie_gbytes = link_gbytes(pci->attr->pcidev);
  if (nic.pcie_gbytes > 0) nic.sources["pcie_gbytes"] = handle.source();
  measure_distances(handle, node, pci, nic);
}

// The index of the NUMA node with this OS number; sysfs knows only the latter.
int numa_index(const NodeTopology& node, int os_index) {
  for (const NumaNode& numa : node.numa)
    if (numa.os_index == os_index) return numa.index;
  return -1;
}

void take_own_nics(const Handle& handle, NodeTopology& node) {
  for (const Nic& nic : list_nics()) {
    NodeNic placed;
    placed.nic = nic;
    placed.nic.numa = numa_index(node, nic.numa);
    if (hwloc_obj_t pci = pci_by_bus_id(handle, nic.pci))
      place_nic(handle, node, pci, placed);
    else if (!nic.pci.empty())
      placed.nic.notes.push_back(fmt::format("place unknown: hwloc does not show PCI device {}", nic.pci));
    node.nics.push_back(placed);
  }
}

// One NIC of a described machine. The description holds neither address nor state nor, as a rule, a speed.
NodeNic described_nic(const Handle& handle, const NodeTopology& node, hwloc_obj_t device) {
  NodeNic placed;
  Nic& nic = placed.nic;
  hwloc_obj_t pci = pci_device_of(device);
  bool infiniband = device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS ||
                    (pci && pci->attr->pcidev.class_id == kInfinibandClass);
  nic.name = device->name ? device->name : "";
  nic.kind = infiniband ? "infiniband" : pci ? "ethernet" : "virtual";
  nic.sources = {{"name", handle.source()}, {"kind", handle.source()}};
  nic.notes.push_back("address, state and speed unknown: the description holds none");
  if (pci) {
    nic.pci = bus_id(pci->attr->pcidev);
    nic.sources["pci"] = handle.source();
    place_nic(handle, node, pci, placed);
  }
  return placed;
}

// A fabric device (mlx5_0) repeats a network device (ib0) of the same endpoint info where there is one.
bool has_network_device(hwloc_obj_t fabric_device) {
  hwloc_obj_t pci = pci_device_of(fabric_device);
  for (hwloc_obj_t child = pci ? pci->io_first_child : nullptr; child; child = child->next_sibling)
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) return true;
  return false;
}

void take_described_nics(const Handle& handle, NodeTopology& node) {
  for (hwloc_obj_t device : objects(handle, HWLOC_OBJ_OS_DEVICE)) {
    bool network = device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK;
    bool fabric = device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && !has_network_device(device);
    if (network || fabric) node.nics.push_back(described_nic(handle, node, device));
  }
}

}  // namespace

void describe_gpus(const Handle& handle, NodeTopology& node) {
  std::vector<hwloc_obj_t> devices = objects(handle, HWLOC_OBJ_PCI_DEVICE);
  for (hwloc_obj_t pci : devices) {
    Display kind = display_kind(pci);
    if (kind == Display::gpu) {
      Gpu gpu = describe_gpu(handle, pci);
      gpu.index = static_cast<int>(node.gpus.size());
      node.gpus.push_back(gpu);
    } else if (kind == Display::adapter) {
      node.notes.push_back(fmt::format("display adapter {} ({}) is not counted as a GPU",
                                       bus_id(pci->attr->pcidev), vendor_name(pci->attr->pcidev.vendor_id)));
    }
  }
  if (devices.empty())
    node.notes.push_back(
        "no PCI devices visible: none there, or hidden from this container; GPUs cannot be listed");
}

void describe_nics(const Handle& handle, NodeTopology& node) {
  if (handle.is_this_system())
    take_own_nics(handle, node);
  else
    take_described_nics(handle, node);
}

}  // namespace ddl::hwloc
