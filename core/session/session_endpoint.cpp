#include "core/session/session_endpoint.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/random.hpp"
#include "core/net/unanswered.hpp"
#include "core/topology/caches.hpp"
#include "core/transport/staging_pool.hpp"

namespace ddl {

namespace {

// Each rank maps those of all of its host. Where a process may map little (`ulimit -v`, a queue's h_vmem),
// together, and with those of the other jobs of this process, they are to be an eighth of that, so that the
// program does not lack it; but each needs some tens of megabytes for calls without an order to go on. Throws
// Error where that is too much.
Bytes region_bytes(Bytes staging, int local_ranks) {
  constexpr Bytes kLeast = 64 << 20;
  const Bytes wanted = StagingPool::region_bytes(staging, StagingPool::kLeastOfJob);
  const auto ranks = static_cast<Bytes>(std::max(local_ranks, 1));
  rlimit most{};
  if (::getrlimit(RLIMIT_AS, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return wanted;
  const Bytes mapped = Region::all_mapped();
  const Bytes left = most.rlim_cur / 8 - std::min<Bytes>(mapped, most.rlim_cur / 8);
  const Bytes bytes = std::clamp<Bytes>(left / ranks, kLeast, wanted);
  if (mapped + bytes * ranks > most.rlim_cur / 6)
    throw Error(fmt::format("{} ranks of a host need {} MiB of shared memory", ranks, bytes * ranks >> 20),
                fmt::format("a process may map {} MiB in all, and at most a sixth of that is taken",
                            most.rlim_cur >> 20),
                "raise `ulimit -v`");
  return bytes;
}

const char* why_closed(int cause) {
  switch (cause) {
    case ENOMEM:
      return "this process may have no more memory: `ulimit -v`";
    case EMFILE:
      return "this process may have no more files open: `ulimit -n`";
    case ENFILE:
      return "the machine may have no more files open";
    default:
      return "another container or user?";
  }
}

}  // namespace

void SessionEndpoint::describe(EndpointInfo& endpoint) {
  endpoint.pid = ::getpid();
  endpoint.nonce = random_number();
  const Bytes bytes = region_bytes(env_.staging_bytes, counts_.local_size);
  endpoint.staging = std::min(env_.staging_bytes, bytes / 4);
  region_ = std::make_shared<Region>(Region::create(counts_.local_size, bytes, endpoint.nonce));
  endpoint.fd = region_->fd();
  if (counts_.hosts != 1 || !env_.fake_hosts.empty()) open_rails(endpoint);
}

Reach SessionEndpoint::reach(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) {
  attach_local(job_map, endpoints);
  Reach reach = try_rails(job_map, endpoints);
  reach.reads_neighbours = env_.single_copy && reads_neighbours_;
  reach.slow_lines = lines_come_slowly();
  return reach;
}

void SessionEndpoint::attach_local(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) {
  std::vector<Rank> here = job_map.ranks_with(me_);
  std::vector<LocalPeer> peers;
  int my_place = 0;
  if (here.size() > static_cast<std::size_t>(counts_.local_size))
    throw Error(
        fmt::format("PMIx counts {} ranks on this host, there are {}", counts_.local_size, here.size()));
  for (Rank peer : here) {
    const EndpointInfo& endpoint = endpoints[static_cast<std::size_t>(peer)];
    if (peer == me_) {
      my_place = static_cast<int>(peers.size());
      peers.push_back({peer, region_});
      continue;
    }
    errno = 0;
    std::optional<Region> region = Region::attach(endpoint.pid, endpoint.fd, endpoint.nonce, endpoint.bell);
    if (!region)
      throw Error(fmt::format("rank {} cannot open the shared memory of rank {} on the same host ({})", me_,
                              peer, why_closed(errno)));
    reads_neighbours_ = reads_neighbours_ && region->can_read_owner();
    peers.push_back({peer, std::make_shared<Region>(std::move(*region))});
  }
  local_ = std::make_unique<SharedMemoryTransport>(std::move(peers), my_place, job_map.staging);
}

void SessionEndpoint::connect(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) {
  stop_listening();
  if (job_map.hosts() == 1) return;
  if (endpoints[static_cast<std::size_t>(me_)].wire == "ucx") note_far_ends(job_map, endpoints);
  std::vector<std::vector<WireAddress>> addresses;
  for (std::size_t r = 0; r < endpoints.size(); ++r) {
    addresses.emplace_back();
    for (std::size_t interface : job_map.interface_of_rail[r])
      addresses.back().push_back(endpoints[r].rails[interface].address);
  }
  wire_->set_rails(job_map.interface_of_rail[static_cast<std::size_t>(me_)], std::move(addresses));
}

void SessionEndpoint::note_far_ends(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) {
  for (Rank leader : job_map.leaders()) {
    const auto r = static_cast<std::size_t>(leader);
    if (job_map.host_of_rank[r] == job_map.host_of_rank[static_cast<std::size_t>(me_)]) continue;
    for (std::size_t interface : job_map.interface_of_rail[r])
      far_ends_[endpoints[r].rails[interface].ip] = {leader, endpoints[r].host};
  }
}

// UCX leaves it to the kernel to find out that nobody answers, which over sockets takes a quarter of an hour.
std::optional<std::pair<Rank, std::string>> SessionEndpoint::silent_peer() const {
  if (far_ends_.empty()) return std::nullopt;
  for (const std::string& address : unanswered_connections_of(::getpid()))
    if (auto far_end = far_ends_.find(address); far_end != far_ends_.end())
      return std::pair(far_end->second.rank,
                       fmt::format("{} has not answered at {} for 6 s", far_end->second.host, address));
  return std::nullopt;
}

}  // namespace ddl
