// Packages, NUMA nodes and cores.
#include <fmt/format.h>

#include "hwloc_topo/hwloc_handle.hpp"

namespace ddl::hwloc {
namespace {

void describe_packages(const Handle& handle, NodeTopology& node) {
  std::vector<hwloc_obj_t> packages = objects(handle, HWLOC_OBJ_PACKAGE);
  if (packages.empty()) {
    packages.push_back(hwloc_get_root_obj(handle.get()));
    node.notes.push_back("packages unknown: hwloc describes none; the node is taken as one");
  }
  for (hwloc_obj_t object : packages) {
    Package package;
    package.index = static_cast<int>(node.packages.size());
    package.os_index = static_cast<int>(object->os_index);
    package.model = info(object, "CPUModel");
    package.pus = numbers_in(object->cpuset);
    package.sources = {{"os_index", handle.source()}, {"pus", handle.source()}};
    if (!package.model.empty()) package.sources["model"] = handle.source();
    node.packages.push_back(package);
  }
}

void describe_numa(const Handle& handle, NodeTopology& node) {
  std::vector<hwloc_obj_t> nodes = host_numa_nodes(handle);
  for (hwloc_obj_t object : nodes) {
    NumaNode numa;
    numa.index = static_cast<int>(node.numa.size());
    numa.os_index = static_cast<int>(object->os_index);
    numa.package = package_of(handle, object);
    numa.memory = object->attr->numanode.local_memory;
    numa.pus = numbers_in(object->cpuset);
    numa.sources = {{"os_index", handle.source()}, {"pus", handle.source()}, {"package", handle.source()}};
    if (numa.memory)
      numa.sources["memory"] = handle.source();
    else
      node.notes.push_back(fmt::format("memory of NUMA node {} unknown: hwloc states none", numa.index));
    node.memory += numa.memory;
    node.numa.push_back(numa);
  }
  std::size_t all = objects(handle, HWLOC_OBJ_NUMANODE).size();
  if (all > nodes.size())
    node.notes.push_back(fmt::format("{} NUMA nodes are memory of GPUs and left out", all - nodes.size()));
}

}  // namespace

void describe_cpus(const Handle& handle, NodeTopology& node) {
  describe_packages(handle, node);
  describe_numa(handle, node);
  std::vector<hwloc_obj_t> cores = objects(handle, HWLOC_OBJ_CORE);
  if (cores.empty()) {
    cores = objects(handle, HWLOC_OBJ_PU);
    node.notes.push_back("cores unknown: hwloc describes none; each PU is taken as one");
  }
  for (hwloc_obj_t object : cores)
    node.cores.push_back({static_cast<int>(node.cores.size()), package_of(handle, object),
                          numa_of(handle, object), numbers_in(object->cpuset)});
  node.sources["cores"] = handle.source();
  if (node.memory) node.sources["memory"] = handle.source();
}

}  // namespace ddl::hwloc
