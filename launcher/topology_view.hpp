// What --topology and --dry-run show. Each host is described by ddl-probe, started there once through the
// same mpirun (one mpirun per host, so that the descriptions cannot mix in one stream), or directly on this
// machine.
#pragma once

#include <chrono>
#include <optional>

#include "core/topology/node_topology.hpp"
#include "launcher/job_spec.hpp"

namespace ddl {

constexpr std::chrono::seconds kProbeLimit{60};

/// The JSON object in what a probe printed, which may have banners of a login shell around it. Pure.
std::optional<NodeTopology> find_node_topology(const std::string& output);

/// This machine, or nothing when ddl-probe is missing, fails or takes longer than that.
std::optional<NodeTopology> probe_this_machine(const Installation& installation, std::chrono::seconds limit);

/// Every host of the allocation. Throws LaunchError when one cannot be described.
Topology probe_hosts(const JobInputs& in);

enum class Picture { text, svg };
/// The hosts with the rings their networks allow (DDL_RAILS restricts the rails).
std::string drawing(const Topology& topology, const System& world, Picture picture);

/// --topology: text on standard output, or the file.
void show_topology(const JobInputs& in);

/// The lines in front of the command in --dry-run. Pure.
std::string describe_job(const JobInputs& in, const JobSpec& job);

}  // namespace ddl
