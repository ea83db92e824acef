// EndpointInfo: what one rank tells all others about itself before MPI_Init; JobMap: what all ranks conclude
// from all endpoint infos. The job map is a pure function of the endpoint infos, so every rank concludes the
// same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/gradient_settings.hpp"
#include "core/base/types.hpp"
#include "core/bootstrap/host_identity.hpp"

namespace ddl {

inline constexpr int kWireVersion = 15;  // of endpoint infos, headers and plans together: ranks must agree

struct RailInfo {
  std::string interface, subnet;
  std::vector<std::byte> address;  // of its end of the wire
  std::string ip = {};             // the interface's address as text
  std::uint16_t probe_port = 0;    // its port, see core/transport/rail_check.hpp
  double gbit = 0;                 // what the link is rated at, Gbit/s; 0: unknown, or no hardware
  friend bool operator==(const RailInfo&, const RailInfo&) = default;
};

/// An interface that could be a rail and is none.
struct IdleRail {
  std::string interface, subnet, reason;  // subnet: "" where it has no address
  bool asked = false;                     // DDL_RAILS names it
  friend bool operator==(const IdleRail&, const IdleRail&) = default;
};

struct EndpointInfo : HostIdentity {
  int version = kWireVersion;
  std::string trouble;              // why this rank cannot take part; "" when it can
  int pid = 0, fd = -1, bell = -1;  // of its region
  std::uint64_t nonce = 0;
  std::vector<int> cpus;  // it may run on
  int numa_node = -1;     // of all those CPUs; -1: of several, or unknown
  std::string wire;       // what carries bytes between hosts, "tcp" or "ucx"; "" where it has no rails
  std::vector<RailInfo> rails;
  std::vector<IdleRail> idle_rails;
  std::vector<int> fake_hosts;  // DDL_FAKE_HOSTS
  bool progress_hook = false;  // the MPI library can call us from its own waits: needed for nonblocking calls
  Bytes staging = 0, segment = 0;  // DDL_STAGING_BYTES: the least of all counts; DDL_SEGMENT_BYTES: rank 0's
  bool report = false;             // DDL_REPORT is set; rank 0's counts
  std::string options, tuning;     // DDL_OPTIONS and the text of the tuning cache; rank 0's count
  std::string cpu_model;           // rank 0's counts, others leave it out
  bool deterministic = false;      // DDL_DETERMINISTIC; rank 0's counts
  GradientSettings gradients;      // the strictest of all counts
  friend bool operator==(const EndpointInfo&, const EndpointInfo&) = default;
};

std::vector<std::byte> pack(const EndpointInfo& endpoint);
/// Nothing for bytes that are no endpoint info of this version; where one is damaged its trouble names the
/// field.
std::optional<EndpointInfo> unpack(const std::vector<std::byte>& bytes);

struct JobMap {
  std::string trouble;  // why the job runs without the engine; "" when it runs with it
  std::vector<HostIndex> host_of_rank;
  std::vector<int> numa_of_rank;        // -1: unknown
  std::vector<std::string> host_names;  // by HostIndex
  std::vector<std::string> rails;       // subnets that every host has, in rank 0's order
  std::vector<double> rail_gbit;        // what its slowest interface is rated at; 0 where one is unknown
  std::vector<std::vector<std::size_t>> interface_of_rail;  // [rank][rail]: index into the rank's own
  std::vector<std::string> notes;  // rails that are missed, one line each, for rank 0 to say
  bool single_copy = false;        // every rank may read the memory of those on its host
  bool slow_lines = false;         // on the processor of some rank, see lines_come_slowly()
  bool nonblocking = false;        // every rank has the progress hook
  Bytes staging = 0, segment = 0;
  bool report = false;  // all ranks take part in the report
  std::string options, tuning;
  bool deterministic = false;
  GradientSettings gradients;
  int shared_cores = 0;    // that the ranks of several hosts on one kernel take turns on; 0: there are none
  std::vector<int> cores;  // by host: that its ranks may run on
  std::vector<bool> crowded;  // by host: its ranks outnumber these
  /// Ranks on the host of `rank`, in order.
  std::vector<Rank> ranks_with(Rank rank) const;
  int hosts() const { return static_cast<int>(host_names.size()); }
  /// The first rank of each host.
  std::vector<Rank> leaders() const;
  /// Leaves those rails alone that `keep` has a 1 for, by rail.
  void keep_rails(const std::vector<bool>& keep);
};

/// endpoints[r] is rank r's endpoint info, nothing where it published none.
JobMap map_job(const std::vector<std::optional<EndpointInfo>>& endpoints);

}  // namespace ddl
