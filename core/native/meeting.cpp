#include "core/native/meeting.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/bootstrap/host_identity.hpp"
#include "core/native/device.hpp"

namespace ddl {
namespace {

std::string in_words(const MeetingOutcome& outcome) {
  if (!outcome.why_ours.empty()) return "ours, because " + outcome.why_ours;
  if (!outcome.why_flat.empty()) return "NCCL's, and left to it: " + outcome.why_flat;
  auto has = [&](CompanionWay way) {
    return std::find(outcome.ways.begin(), outcome.ways.end(), way) != outcome.ways.end();
  };
  return fmt::format(
      "NCCL's, with {} beside it for all-reduces of {} bytes and more, {}{}{}",
      has(CompanionWay::nccl) ? "smaller ones" : "rails of ours",
      CompanionCut::with_segment(outcome.segment).least, name_of(companion_layout(*outcome.grid, 0)),
      has(CompanionWay::nccl) && has(CompanionWay::rails) ? ", the last of NCCL's or our rails" : "",
      has(CompanionWay::whole) ? ", where that is faster" : "");
}

cuda::Context needed(cuda::Context context) {
  if (!context) throw Error("there is no CUDA device for this rank");
  return context;
}

// Streams that wait in host functions keep those of the process's other ranks from going on.
bool may_go_by_sockets(cuda::Context context) {
  return cuda::has_stream_memory_operations(*native::driver(), native::device_of(context));
}

}  // namespace

Meeting::Meeting(const RendezvousId& id, Rank rank, Rank size, OriginalLibrary original,
                 std::optional<HostIndex> host, cuda::Context context, Env env)
    : context_(needed(context)),
      seat_(std::make_shared<Rendezvous>(id, rank, size, env.timeout_s)),
      group_(id.token),
      env_(std::move(env)) {
  MeetingCard mine{.has_original = original.is_there,
                   .can_split = original.can_split,
                   .by_sockets = original.by_sockets && may_go_by_sockets(context),
                   .device = native::identity_of(context),
                   .host = host ? std::to_string(*host) : text_of(host_identity()),
                   .options = env_.options,
                   .deterministic = env_.deterministic,
                   .fake_hosts = host ? std::vector<int>() : env_.fake_hosts,
                   .segment = env_.segment_bytes};
  outcome_ = conclude(seat_->exchange(pack(mine)));
  if (rank != 0) return;
  if (!outcome_.trouble.empty()) log_warning(outcome_.trouble);
  if (env_.verbose > 0)
    log_info(fmt::format("a communicator of {} rank{}: {}", size, size == 1 ? "" : "s", in_words(outcome_)));
}

std::optional<HostIndex> Meeting::host() const {
  if (outcome_.host_of_rank.empty()) return std::nullopt;
  return outcome_.host_of_rank[static_cast<std::size_t>(rank())];
}

std::vector<std::byte> Meeting::share(std::span<const std::byte> of_rank_0) {
  return seat_->exchange(seat_->rank() == 0 ? of_rank_0 : std::span<const std::byte>()).front();
}

std::unique_ptr<NativeCommunicator> Meeting::open() {
  return std::make_unique<NativeCommunicator>(std::move(seat_), group_, context_, env_);
}

std::optional<Rendezvous::Blobs> Meeting::hear(bool wait) {
  return wait ? seat_->receive() : seat_->receive_what_is_here();
}

std::unique_ptr<NativeCommunicator> open_apart(const RendezvousId& id, Rank rank, Rank size,
                                               cuda::Context context, Env env, std::string who) {
  auto seat = std::make_shared<Rendezvous>(id, rank, size, env.timeout_s);
  if (!env.fake_hosts.empty()) env.fake_hosts.assign(static_cast<std::size_t>(size), 1);
  return std::make_unique<NativeCommunicator>(std::move(seat), id.token, context, std::move(env),
                                              std::move(who));
}

}  // namespace ddl
