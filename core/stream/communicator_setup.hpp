// CommunicatorSetup: where the ranks that hold one unique id come together and decide alike whose
// communicator it is going to be: ours where NCCL would refuse (two ranks on one GPU) or a rank has none,
// else the original's; and whether the original's gets smaller ones beside it, for plans.
//
// The rule a user can break: after the constructor either open(), or share() and, where there are plans,
// all-gathers; all ranks alike. Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/env.hpp"
#include "core/stream/setup_message.hpp"
#include "core/stream/stream_communicator.hpp"

namespace ddl {

/// What a rank's process has of the original.
struct OriginalLibrary {
  bool is_there = false;
  bool can_split = false;   // the communicator that is going to be
  bool by_sockets = false;  // it has nothing better between hosts
};

class CommunicatorSetup {
 public:
  /// `host`: of a split, what its parent's setup called this rank's host. Waits for all ranks; throws Error
  /// when they do not come, or this one has no `context`.
  CommunicatorSetup(const RendezvousId& id, Rank rank, Rank size, OriginalLibrary original,
                    std::optional<HostIndex> host, cuda::Context context, Env env);

  const SetupOutcome& outcome() const { return outcome_; }
  bool is_ours() const { return !outcome_.why_ours.empty(); }
  Rank rank() const { return rendezvous_->rank(); }
  /// This rank's, among those of the communicator; nothing where that was not asked.
  std::optional<HostIndex> host() const;
  /// Everybody gets what rank 0 brings.
  std::vector<std::byte> share(std::span<const std::byte> of_rank_0);
  std::unique_ptr<StreamCommunicator> open();
  /// An all-gather: what this rank has to say, which does not wait; then what all have said, by rank. Nothing
  /// when some have not, unless it is to wait.
  void start_all_gather(std::span<const std::byte> what) { rendezvous_->give(what); }
  std::optional<RendezvousClient::Blobs> test_all_gather(bool wait);

 private:
  cuda::Context context_;
  std::shared_ptr<RendezvousClient> rendezvous_;
  RendezvousId::Token group_;
  Env env_;
  SetupOutcome outcome_;
};

/// A communicator of ranks that know each other to be on hosts of their own, without a setup. Waits for all
/// of them; throws Error when they do not come. `who`: see StreamCommunicator.
std::unique_ptr<StreamCommunicator> open_apart(const RendezvousId& id, Rank rank, Rank size,
                                               cuda::Context context, Env env, std::string who);

}  // namespace ddl
