// What PMIx knows about the job this process is a rank of: for ddl-probe and for people, not for the engine.
//
// Only questions that are answered locally are asked (optional gets with a timeout, no Resolve_peers, nothing
// is put), and PMIx's own view of the hardware (PMIx_Load_topology, PMIx_Compute_distances) is asked for
// within a time limit, because implementations differ in whether and when they answer. An unanswered question
// is a note. Thread safety: one call at a time; PMIx is initialised and finalised inside.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

struct RankFacts {
  Rank rank = 0;
  std::string host;      // "" unknown
  int local_rank = -1;   // on its host; -1 unknown
  std::string locality;  // PMIx's locality string; known for the ranks of this host only
  std::string cpuset;    // what it is bound to; this host only, "" when not bound
};

/// Relative distance from this process's PUs to a device, as PMIx_Compute_distances counts.
struct DeviceFacts {
  std::string name, id, type;
  int min_distance = 0, max_distance = 0;
};

struct JobFacts {
  bool in_job = false;  // false: not started under PMIx, all else is empty
  std::string job;      // the namespace
  Rank rank = -1;
  Rank size = 0;
  std::vector<std::string> hosts;
  std::vector<Rank> local_peers;  // the ranks on this host, this one included
  std::vector<RankFacts> ranks;
  std::string topology;  // what PMIx_Load_topology answered
  std::vector<DeviceFacts> distances;
  std::vector<std::string> notes;  // what did not answer, and why
};

JobFacts read_job_facts();

nlohmann::json json_of(const JobFacts& facts);

}  // namespace ddl
