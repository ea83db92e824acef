#include "mpi_peers.hpp"

#include <fmt/format.h>
#include <smpi/smpi.h>
#include <sys/mman.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "platform.hpp"

// SMPI reads its selector from a command line that only its own main program parses. The function behind it
// is exported by the library without a header; the configure step has tried whether it links.
namespace simgrid::smpi::colls {
#if DDL_SMPI_SELECTS
void set_allreduce(const std::string& name);
void set_bcast(const std::string& name);
void set_reduce(const std::string& name);
void set_allgather(const std::string& name);
void set_gather(const std::string& name);
void set_scatter(const std::string& name);
void set_alltoall(const std::string& name);
#endif
}  // namespace simgrid::smpi::colls

#if DDL_SMPI_SELECTS
// Algorithms that know hosts first make communicators for them, of which SMPI tells everybody by a ring: as
// many messages as there are pairs of ranks, before the call that is timed. None of those timed has this
// ring.
namespace simgrid::smpi {
int allgather__bruck(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);
[[gnu::visibility("default")]] int allgather__ring(const void* in, int in_count, MPI_Datatype in_type,
                                                   void* out, int out_count, MPI_Datatype out_type,
                                                   MPI_Comm comm) {
  return allgather__bruck(in, in_count, in_type, out, out_count, out_type, comm);
}
}  // namespace simgrid::smpi
#endif

namespace ddl::simulation {
namespace {

namespace s4u = simgrid::s4u;

// Below this much real buffers are cheap, and MVAPICH2's two-level algorithms need them: they free what the
// mode without buffers never allocated. Those for a broadcast and a reduce are taken for all sizes.
Bytes real_buffers(Kind kind) { return kind == Kind::all_reduce ? 64 << 10 : 64 << 20; }

std::vector<s4u::Host*> make_hosts(const Cluster& cluster) {
  s4u::NetZone* zone = s4u::create_star_zone("cluster");
  std::vector<s4u::Host*> hosts;
  double rate = cluster.rails * cluster.rail_rate;
  for (HostIndex h = 0; h < cluster.hosts; ++h) {
    s4u::Host* host = zone->create_host(fmt::format("host{}", h), 1e9);
    auto link = [&](const char* name, double bandwidth, double latency) {
      return zone->create_link(fmt::format("{}{}", name, h), bandwidth)->set_latency(latency);
    };
    s4u::Link* out = link("out", rate, cluster.wire_latency)->seal();
    s4u::Link* in = link("in", rate, 0)->seal();
    s4u::Link* inside = link("inside", cluster.gpu_rate, cluster.local_latency)
                            ->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE)
                            ->seal();
    auto* point = host->get_netpoint();
    zone->add_route(point, nullptr, nullptr, nullptr, {s4u::LinkInRoute(out)}, false);
    zone->add_route(nullptr, point, nullptr, nullptr, {s4u::LinkInRoute(in)}, false);
    zone->add_route(point, point, nullptr, nullptr, {s4u::LinkInRoute(inside)}, false);
    hosts.push_back(host);
  }
  zone->seal();
  return hosts;
}

// All ranks share one buffer that no byte is ever put into.
void* reserve(Bytes bytes) {
  void* at = mmap(nullptr, std::max<Bytes>(bytes, 4096), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw Error("no address space for the simulated buffers");
  return at;
}

void select([[maybe_unused]] Kind kind, [[maybe_unused]] const std::string& selector) {
#if DDL_SMPI_SELECTS
  namespace colls = simgrid::smpi::colls;
  switch (kind) {
    case Kind::all_reduce:
      return colls::set_allreduce(selector);
    case Kind::broadcast:
      return colls::set_bcast(selector);
    case Kind::reduce:
      return colls::set_reduce(selector);
    case Kind::all_gather:
      return colls::set_allgather(selector);
    case Kind::gather:
      return colls::set_gather(selector);
    case Kind::scatter:
      return colls::set_scatter(selector);
    case Kind::all_to_all:
      return colls::set_alltoall(selector);
    default:
      throw Error(fmt::format("no {} of the peers is simulated", name_of(kind)));
  }
#else
  throw Error("this SimGrid does not let a program select its MPI");
#endif
}

void call(Kind kind, void* in, void* out, Bytes bytes) {
  const int count = static_cast<int>(bytes / 4);
  const MPI_Datatype type = MPI_FLOAT;
  const MPI_Comm comm = MPI_COMM_WORLD;
  switch (kind) {
    case Kind::broadcast:
      MPI_Bcast(out, count, type, 0, comm);
      break;
    case Kind::reduce:
      MPI_Reduce(in, out, count, type, MPI_SUM, 0, comm);
      break;
    case Kind::all_gather:
      MPI_Allgather(in, count, type, out, count, type, comm);
      break;
    case Kind::gather:
      MPI_Gather(in, count, type, out, count, type, 0, comm);
      break;
    case Kind::scatter:
      MPI_Scatter(in, count, type, out, count, type, 0, comm);
      break;
    case Kind::all_to_all:
      MPI_Alltoall(in, count, type, out, count, type, comm);
      break;
    default:
      MPI_Allreduce(in, out, count, type, MPI_SUM, comm);
  }
}

// Both peers gather more than that around a ring, which is not the one above.
constexpr Bytes kLeastRing = 50'000;

}  // namespace

double simulate_mpi(const Cluster& cluster, Kind kind, Bytes bytes, const std::string& selector) {
  std::unique_ptr<s4u::Engine> engine = make_engine();
  const auto ranks = static_cast<Bytes>(cluster.ranks());
  if (kind == Kind::all_gather && bytes * ranks >= kLeastRing)
    throw Error("the peers' all-gathers of long blocks are not simulated");
  SMPI_init();
  select(kind, selector);
  s4u::Engine::set_config("smpi/simulate-computation:no");
  s4u::Engine::set_config(fmt::format("smpi/os:0:{}:0", cluster.message_cost));
  std::vector<s4u::Host*> hosts = make_hosts(cluster);
  constexpr const char* kJob = "job";
  SMPI_app_instance_register(kJob, nullptr, cluster.ranks());
  const Bytes room =
      bytes * (kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::reduce ? 1 : ranks);
  void *in = reserve(room), *out = reserve(room);
  double start = 0, end = 0;
  s4u::BarrierPtr together = s4u::Barrier::create(static_cast<unsigned>(cluster.ranks()));
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) {
    s4u::ActorPtr actor =
        s4u::Actor::init(fmt::format("rank{}", rank), hosts[static_cast<std::size_t>(cluster.host_of(rank))]);
    actor->set_property("instance_id", kJob);
    actor->set_property("rank", std::to_string(rank));
    actor->start([&, rank] {
      if (bytes <= real_buffers(kind)) {
        MPI_Init(nullptr, nullptr);
        // The first call of a two-level algorithm makes its communicators.
        call(kind, in, out, 4);
      } else {
        smpi_replay_init(kJob, rank, 0);
      }
      together->wait();  // MPI's own takes as many messages as there are pairs of ranks
      start = s4u::Engine::get_clock();
      call(kind, in, out, bytes);
      end = std::max(end, s4u::Engine::get_clock());
      MPI_Finalize();
    });
  }
  engine->run();
  if (end <= start) throw Error(selector + " did not come to an end", "the simulation of this row is void");
  return end - start;
}

}  // namespace ddl::simulation
