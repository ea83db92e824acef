// The JSON form of topologies: what ddl-probe prints and the launcher reads back. Member names are the field
// names.
//
// Reading is strict about syntax and types and lenient about absent members, which keep their defaults: a
// description written by hand need not name everything. Wrong input throws Error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/topology/node_topology.hpp"

namespace ddl {

nlohmann::json json_of(const NodeTopology& node);
nlohmann::json json_of(const Topology& topology);

/// Pretty-printed, with a final newline.
std::string json_text(const NodeTopology& node);
std::string json_text(const Topology& topology);

NodeTopology parse_node_topology(const std::string& text);
Topology parse_topology(const std::string& text);

}  // namespace ddl
