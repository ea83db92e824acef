// Links between devices: NVLink and its likes from hwloc's bandwidth matrices, PCIe from the PCI devices.
//
// The matrices hold MB/s between GPUs, CPU packages and switches. hwloc 2.9's own transitive closure over
// switches sets direct links to zero when there are no switches, so the paths through switches are computed
// here.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "hwloc_topo/hwloc_handle.hpp"
#include "hwloc_topo/nvml.hpp"

namespace ddl::hwloc {
namespace {

struct MatrixName {
  const char* in_hwloc;
  const char* kind;
};
constexpr MatrixName kMatrices[] = {
    {"NVLinkBandwidth", "NVLink"}, {"XGMIBandwidth", "XGMI"}, {"XeLinkBandwidth", "XeLink"}};
constexpr double kMegaPerGiga = 1000;

// The objects of one matrix by the names that links use.
struct Ends {
  std::vector<std::string> names;
  std::vector<int> gpus;  // index of the GPU, else -1
  std::vector<bool> is_switch;
};

Ends ends_of(const Handle& handle, const NodeTopology& node, const hwloc_distances_s& matrix) {
  Ends ends;
  int switches = 0;
  for (unsigned i = 0; i < matrix.nbobjs; ++i) {
    hwloc_obj_t object = matrix.objs[i];
    int gpu = object->cpuset ? -1 : gpu_at(node, pci_device_of(object));
    bool is_switch = !object->cpuset && gpu < 0;
    ends.gpus.push_back(gpu);
    ends.is_switch.push_back(is_switch);
    if (gpu >= 0)
      ends.names.push_back(fmt::format("gpu{}", gpu));
    else if (is_switch)
      ends.names.push_back(fmt::format("switch{}", switches++));
    else
      ends.names.push_back(fmt::format("package{}", package_of(handle, object)));
  }
  return ends;
}

// A link exists when both directions do; the slower one counts.
double megabytes(const hwloc_distances_s& matrix, unsigned a, unsigned b) {
  return static_cast<double>(
      std::min(matrix.values[a * matrix.nbobjs + b], matrix.values[b * matrix.nbobjs + a]));
}

double megabytes_to_switches(const hwloc_distances_s& matrix, const Ends& ends, unsigned from) {
  double sum = 0;
  for (unsigned i = 0; i < matrix.nbobjs; ++i)
    if (ends.is_switch[i] && i != from) sum += megabytes(matrix, from, i);
  return sum;
}

void take_direct_links(const hwloc_distances_s& matrix, const Ends& ends, const char* kind,
                       const std::string& source, NodeTopology& node) {
  for (unsigned a = 0; a < matrix.nbobjs; ++a)
    for (unsigned b = a + 1; b < matrix.nbobjs; ++b)
      if (double rate = megabytes(matrix, a, b); rate > 0)
        node.links.push_back({ends.names[a], ends.names[b], rate / kMegaPerGiga, kind, source});
      else if (matrix.values[a * matrix.nbobjs + b] != matrix.values[b * matrix.nbobjs + a])
        node.notes.push_back(fmt::format("{} between {} and {} left out: described in one direction only",
                                         kind, ends.names[a], ends.names[b]));
}

void take_switched_pairs(const hwloc_distances_s& matrix, const Ends& ends, const char* kind,
                         const std::string& source, NodeTopology& node) {
  for (unsigned a = 0; a < matrix.nbobjs; ++a)
    for (unsigned b = a + 1; b < matrix.nbobjs; ++b) {
      if (ends.gpus[a] < 0 || ends.gpus[b] < 0) continue;
      double rate = std::min(megabytes_to_switches(matrix, ends, a), megabytes_to_switches(matrix, ends, b)) /
                    kMegaPerGiga;
      if (rate > 0)
        node.links.push_back(
            {ends.names[a], ends.names[b], rate, fmt::format("{} through switches", kind), source});
    }
}

bool take_matrix(const Handle& handle, const MatrixName& name, NodeTopology& node) {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_name(handle.get(), name.in_hwloc, &count, &matrix, 0) != 0 || count == 0)
    return false;
  Ends ends = ends_of(handle, node, *matrix);
  take_direct_links(*matrix, ends, name.kind, handle.source(), node);
  take_switched_pairs(*matrix, ends, name.kind, handle.source(), node);
  hwloc_distances_release(handle.get(), matrix);
  return true;
}

std::string root_end(int package) { return package >= 0 ? fmt::format("package{}", package) : "host"; }

void take_pcie(const Handle& handle, NodeTopology& node) {
  for (const Gpu& gpu : node.gpus) {
    hwloc_obj_t pci = hwloc_get_pcidev_by_busidstring(handle.get(), gpu.pci.c_str());
    double rate = pci ? link_gbytes(pci->attr->pcidev) : 0;
    if (rate > 0)
      node.links.push_back(
          {fmt::format("gpu{}", gpu.index), root_end(gpu.package), rate, "PCIe", handle.source()});
    else
      node.notes.push_back(fmt::format("PCIe speed of gpu{} unknown: hwloc states none", gpu.index));
  }
  for (const NodeNic& nic : node.nics)
    if (nic.pcie_gbytes > 0)
      node.links.push_back({nic.nic.name, root_end(nic.package), nic.pcie_gbytes, "PCIe", handle.source()});
}

}  // namespace

void describe_links(const Handle& handle, NodeTopology& node) {
  bool found = false;
  for (const MatrixName& name : kMatrices) found |= take_matrix(handle, name, node);
  if (!found && handle.is_this_system()) ask_nvml(node);
  take_pcie(handle, node);
}

}  // namespace ddl::hwloc
