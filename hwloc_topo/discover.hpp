// Describes this node with hwloc, and binds this process. This folder is the only one that includes
// <hwloc.h>.
//
// HWLOC_XMLFILE and HWLOC_SYNTHETIC are honoured: the described machine then takes the place of this one, its
// NICs are the network devices of the description (this machine's would be wrong), and every source says so.
// A description that cannot be read throws Error. What a container hides is a note in the result, never an
// error. The rule a user can break: bind to PUs of this machine only, not of a described one. Thread safety:
// safe to call from several threads; each call loads its own topology (some tens of milliseconds).
#pragma once

#include <string>
#include <vector>

#include "core/topology/node_topology.hpp"

namespace ddl {

/// This node, or the one HWLOC_XMLFILE or HWLOC_SYNTHETIC describes.
NodeTopology discover_node();

/// The node in a file of hwloc's XML format.
NodeTopology discover_from_xml(const std::string& file);

/// A made-up node in hwloc's synthetic notation, for example "pack:2 numa:1 core:4 pu:1".
NodeTopology discover_from_synthetic(const std::string& description);

/// Binds all threads of this process to these PUs (OS numbers). Throws Error when the system refuses, for
/// example because the PUs do not exist or are outside the container's set.
void bind_this_process(const std::vector<int>& pus);

/// The PUs this process may run on now; empty when the system does not tell.
std::vector<int> binding_of_this_process();

}  // namespace ddl
