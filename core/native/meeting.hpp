// Meeting: where the ranks that hold one unique id come together and decide alike whose communicator it is
// going to be: ours where NCCL would refuse (two ranks on one GPU) or a rank has none, else the original's;
// and whether the original's gets smaller ones beside it, for plans.
//
// The rule a user can break: after the constructor either open(), or share() and, where there are plans,
// rounds of tell() and hear(); all ranks alike. Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/env.hpp"
#include "core/native/meeting_card.hpp"
#include "core/native/native_communicator.hpp"

namespace ddl {

/// What a rank's process has of the original.
struct OriginalLibrary {
  bool is_there = false;
  bool can_split = false;   // the communicator that is going to be
  bool by_sockets = false;  // it has nothing better between hosts
};

class Meeting {
 public:
  /// `host`: of a split, what its parent's meeting called this rank's host. Waits for all ranks; throws Error
  /// when they do not come, or this one has no `context`.
  Meeting(const RendezvousId& id, Rank rank, Rank size, OriginalLibrary original,
          std::optional<HostIndex> host, cuda::Context context, Env env);

  const MeetingOutcome& outcome() const { return outcome_; }
  bool is_ours() const { return !outcome_.why_ours.empty(); }
  Rank rank() const { return seat_->rank(); }
  /// This rank's, among those of the communicator; nothing where that was not asked.
  std::optional<HostIndex> host() const;
  /// Everybody gets what rank 0 brings.
  std::vector<std::byte> share(std::span<const std::byte> of_rank_0);
  std::unique_ptr<NativeCommunicator> open();
  /// A round: what this rank has to say, which does not wait; then what all have said, by rank. Nothing when
  /// some have not, unless it is to wait.
  void tell(std::span<const std::byte> what) { seat_->give(what); }
  std::optional<Rendezvous::Blobs> hear(bool wait);

 private:
  cuda::Context context_;
  std::shared_ptr<Rendezvous> seat_;
  RendezvousId::Token group_;
  Env env_;
  MeetingOutcome outcome_;
};

/// A communicator of ranks that know each other to be on hosts of their own, without a meeting. Waits for all
/// of them; throws Error when they do not come. `who`: see NativeCommunicator.
std::unique_ptr<NativeCommunicator> open_apart(const RendezvousId& id, Rank rank, Rank size,
                                               cuda::Context context, Env env, std::string who);

}  // namespace ddl
