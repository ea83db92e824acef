#include "core/stream/communicator_setup.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/bootstrap/host_identity.hpp"
#include "core/stream/device.hpp"

namespace ddl {
namespace {

std::string in_words(const SetupOutcome& outcome) {
  if (!outcome.why_ours.empty()) return "ours, because " + outcome.why_ours;
  if (!outcome.why_flat.empty()) return "NCCL's, and left to it: " + outcome.why_flat;
  auto has = [&](HierarchyRoute route) {
    return std::find(outcome.routes.begin(), outcome.routes.end(), route) != outcome.routes.end();
  };
  return fmt::format(
      "NCCL's, with {} beside it for all-reduces of {} bytes and more, {}{}{}",
      has(HierarchyRoute::nccl) ? "smaller ones" : "rails of ours",
      HierarchyCut::with_segment(outcome.segment).least, name_of(hierarchy_layout(*outcome.grid, 0)),
      has(HierarchyRoute::nccl) && has(HierarchyRoute::rails) ? ", the last of NCCL's or our rails" : "",
      has(HierarchyRoute::whole) ? ", where that is faster" : "");
}

cuda::Context needed(cuda::Context context) {
  if (!context) throw Error("there is no CUDA device for this rank");
  return context;
}

// Streams that wait in host functions keep those of the process's other ranks from going on.
bool may_go_by_sockets(cuda::Context context) {
  return cuda::has_stream_memory_operations(*gpu::driver(), gpu::device_of(context));
}

}  // namespace

CommunicatorSetup::CommunicatorSetup(const RendezvousId& id, Rank rank, Rank size, OriginalLibrary original,
                                     std::optional<HostIndex> host, cuda::Context context, Env env)
    : context_(needed(context)),
      rendezvous_(std::make_shared<RendezvousClient>(id, rank, size, env.timeout_s)),
      group_(id.token),
      env_(std::move(env)) {
  SetupMessage mine{.has_original = original.is_there,
                    .can_split = original.can_split,
                    .by_sockets = original.by_sockets && may_go_by_sockets(context),
                    .device = gpu::identity_of(context),
                    .host = host ? std::to_string(*host) : text_of(host_identity()),
                    .options = env_.options,
                    .deterministic = env_.deterministic,
                    .fake_hosts = host ? std::vector<int>() : env_.fake_hosts,
                    .segment = env_.segment_bytes};
  outcome_ = conclude(rendezvous_->exchange(pack(mine)));
  if (rank != 0) return;
  if (!outcome_.trouble.empty()) log_warning(outcome_.trouble);
  if (env_.verbose > 0)
    log_info(fmt::format("a communicator of {} rank{}: {}", size, size == 1 ? "" : "s", in_words(outcome_)));
}

std::optional<HostIndex> CommunicatorSetup::host() const {
  if (outcome_.host_of_rank.empty()) return std::nullopt;
  return outcome_.host_of_rank[static_cast<std::size_t>(rank())];
}

std::vector<std::byte> CommunicatorSetup::share(std::span<const std::byte> of_rank_0) {
  return rendezvous_->exchange(rendezvous_->rank() == 0 ? of_rank_0 : std::span<const std::byte>()).front();
}

std::unique_ptr<StreamCommunicator> CommunicatorSetup::open() {
  return std::make_unique<StreamCommunicator>(std::move(rendezvous_), group_, context_, env_);
}

std::optional<RendezvousClient::Blobs> CommunicatorSetup::test_all_gather(bool wait) {
  return wait ? rendezvous_->receive() : rendezvous_->receive_what_is_here();
}

std::unique_ptr<StreamCommunicator> open_apart(const RendezvousId& id, Rank rank, Rank size,
                                               cuda::Context context, Env env, std::string who) {
  auto rendezvous = std::make_shared<RendezvousClient>(id, rank, size, env.timeout_s);
  if (!env.fake_hosts.empty()) env.fake_hosts.assign(static_cast<std::size_t>(size), 1);
  return std::make_unique<StreamCommunicator>(std::move(rendezvous), id.token, context, std::move(env),
                                              std::move(who));
}

}  // namespace ddl
