// SessionEndpoint: what this rank has for its neighbours and for other hosts: the memory that ranks of this
// host attach, the rails and the connections over them. The part of joining that acts on the machine.
//
// Life: describe, reach, connect, each once and in this order; each throws what is in the way. Thread safety:
// one call at a time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/env.hpp"
#include "core/bootstrap/exchange.hpp"
#include "core/bootstrap/job_map.hpp"
#include "core/session/handshake.hpp"
#include "core/transport/rail_check.hpp"
#include "core/transport/region.hpp"
#include "core/transport/shared_memory.hpp"
#include "core/transport/wire.hpp"

namespace ddl {

class SessionEndpoint {
 public:
  /// `env` must outlive it.
  SessionEndpoint(Rank me, HostCounts counts, const Env& env) : me_(me), counts_(counts), env_(env) {}

  /// Makes the memory and opens the rails, and says in the endpoint info how to reach them.
  void describe(EndpointInfo& endpoint);
  Reach reach(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints);
  void connect(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints);

  /// Nobody tries a rail any more.
  void stop_listening() { listeners_.reset(); }
  /// The engine is not used, by any rank: the memory is the program's again.
  void let_go() {
    stop_listening();
    local_.reset();
    region_.reset();
  }

  /// A rank of a host to which the wire sends in vain, and why it must be so; of a wire that does not see it
  /// itself. While the wire is open, by any thread.
  std::optional<std::pair<Rank, std::string>> silent_peer() const;

  SharedMemoryTransport* local() const { return local_.get(); }
  WireTransport* wire() const { return wire_.get(); }

 private:
  void note_far_ends(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints);
  void open_rails(EndpointInfo& endpoint);
  void attach_local(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints);
  Reach try_rails(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints);

  struct FarEnd {
    Rank rank;
    std::string host;
  };

  const Rank me_;
  const HostCounts counts_;
  const Env& env_;
  std::shared_ptr<Region> region_;
  bool reads_neighbours_ = true;
  std::unique_ptr<RailListeners> listeners_;  // until all have tried them
  std::unique_ptr<WireTransport> wire_;
  std::map<std::string, FarEnd> far_ends_;  // by address
  std::unique_ptr<SharedMemoryTransport> local_;
};

}  // namespace ddl
