#include "hwloc_topo/discover.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "hwloc_topo/hwloc_handle.hpp"

namespace ddl {
namespace {

using Prepare = std::function<void(hwloc_topology_t)>;

// gl opens X displays and can hang on whatever else listens there; opencl starts every vendor's runtime.
void keep_out_of_trouble(hwloc_topology_t topology) {
  for (const char* component : {"gl", "opencl"})
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
}

// hwloc parses the whole of a description only here, so a damaged one is found here too.
void load(const hwloc::Handle& handle, const Prepare& prepare) {
  keep_out_of_trouble(handle.get());
  // Before loading: I/O objects that the filter drops do not come back.
  hwloc_topology_set_io_types_filter(handle.get(), HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // All of them: NVSwitches do not count as important, and without them their links vanish from the matrices.
  hwloc_topology_set_type_filter(handle.get(), HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
  prepare(handle.get());
  if (hwloc_topology_load(handle.get()) != 0)
    throw Error(
        fmt::format("{} gives no topology", handle.source()), std::strerror(errno),
        "check what HWLOC_* variables in the environment name; `lstopo` shows what hwloc makes of it");
}

std::string host_name(const hwloc::Handle& handle, NodeTopology& node) {
  if (handle.is_this_system()) {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    node.sources["host"] = "gethostname";
    return name.data();
  }
  std::string name = hwloc::info(hwloc_get_root_obj(handle.get()), "HostName");
  node.sources["host"] = name.empty() ? "given" : handle.source();
  return name.empty() ? "described" : name;
}

NodeTopology discover(const std::string& source, const Prepare& prepare) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw Error("hwloc does not start", std::strerror(errno));
  hwloc::Handle handle(topology, source);
  load(handle, prepare);
  NodeTopology node;
  node.host = host_name(handle, node);
  hwloc::describe_cpus(handle, node);
  hwloc::describe_gpus(handle, node);
  hwloc::describe_nics(handle, node);
  hwloc::describe_links(handle, node);
  if (!handle.is_this_system())
    node.notes.push_back(fmt::format("described by {}: not the machine this ran on", source));
  return node;
}

}  // namespace

NodeTopology discover_from_xml(const std::string& file) {
  return discover("hwloc (HWLOC_XMLFILE)", [&](hwloc_topology_t topology) {
    errno = 0;
    if (access(file.c_str(), R_OK) != 0 || hwloc_topology_set_xml(topology, file.c_str()) != 0)
      throw Error(fmt::format("{} cannot be read as an hwloc topology", file),
                  errno ? std::strerror(errno) : "it is not in hwloc's XML format",
                  "check HWLOC_XMLFILE; lstopo writes such files");
  });
}

NodeTopology discover_from_synthetic(const std::string& description) {
  return discover("hwloc (HWLOC_SYNTHETIC)", [&](hwloc_topology_t topology) {
    if (hwloc_topology_set_synthetic(topology, description.c_str()) != 0)
      throw Error(fmt::format("HWLOC_SYNTHETIC={} is not understood", description), "",
                  "for example: pack:2 numa:1 core:4 pu:1");
  });
}

NodeTopology discover_node() {
  std::string file = foreign_env("HWLOC_XMLFILE"), synthetic = foreign_env("HWLOC_SYNTHETIC");
  if (!file.empty()) return discover_from_xml(file);
  if (!synthetic.empty()) return discover_from_synthetic(synthetic);
  return discover("hwloc", [](hwloc_topology_t) {});
}

}  // namespace ddl
