#include "core/topology/topology_json.hpp"

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"

namespace ddl {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Nic, name, address, prefix, up, running, loopback, gbit, kind,
                                                pci, numa, sources, notes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Package, index, os_index, model, pus, sources)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NumaNode, index, os_index, package, memory, pus, sources)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Core, index, package, numa, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Gpu, index, name, vendor, pci, numa, package, sources)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DistanceTo, to, distance)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NodeNic, nic, package, pcie_gbytes, distances, sources)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DeviceLink, a, b, gbytes, kind, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NodeTopology, host, memory, packages, numa, cores, gpus, nics,
                                                links, sources, notes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RankPlace, rank, host, pus, gpu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Topology, hosts, ranks)

namespace {

// A host name or device name may hold bytes that are no UTF-8; they are replaced rather than fatal.
std::string text_of(const nlohmann::json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

template <class Value>
Value parse(const std::string& text) {
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    if (!json.is_object()) throw Error("a topology must be a JSON object");
    return json.get<Value>();
  } catch (const nlohmann::json::exception& error) {
    throw Error("a topology could not be read", error.what(), "compare it with what ddl-probe prints");
  }
}

}  // namespace

nlohmann::json json_of(const NodeTopology& node) { return node; }
nlohmann::json json_of(const Topology& topology) { return topology; }
std::string json_text(const NodeTopology& node) { return text_of(node); }
std::string json_text(const Topology& topology) { return text_of(topology); }

NodeTopology parse_node_topology(const std::string& text) { return parse<NodeTopology>(text); }

Topology parse_topology(const std::string& text) {
  Topology topology = parse<Topology>(text);
  for (const RankPlace& place : topology.ranks)
    if (place.host < 0 || place.host >= static_cast<HostIndex>(topology.hosts.size()))
      throw Error("a topology could not be read", "rank " + std::to_string(place.rank) + " is on host " +
                                                      std::to_string(place.host) +
                                                      ", which is not described");
  return topology;
}

}  // namespace ddl
