// HostPath: memory that all ranks of a communicator on one host share and have pinned, for all-reduces that
// the host does: the workers of each rank reduce its share of all inputs into all outputs. Nothing is copied
// on the host. All ranks agree, when the communicator is created, whether there is one.
//
// Thread safety: all but agree_on and destruction. Ownership: its memory, which it gives back or abandons.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/bootstrap/peer_watch.hpp"
#include "core/device/staged_call.hpp"
#include "core/stream/gpu_window.hpp"
#include "core/stream/host_work.hpp"

namespace ddl {

class HostPath {
 public:
  /// Rounds of all ranks. Null on all alike where one cannot, or may not. Throws Error where the rounds fail.
  static std::unique_ptr<HostPath> agree_on(PeerWatch& watch, cuda::Context context, Rank rank, bool may);
  ~HostPath();

  const SharedStaging& staging() const { return staging_; }
  /// Whether a call goes this way; alike on all ranks.
  bool serves(const HostCall& call) const;
  /// A worker's part of this rank's share of one chunk.
  void work(const StreamCall& call, const StagedChunk& chunk) const;
  /// Others may still write there.
  void abandon() { is_abandoned_ = true; }

 private:
  HostPath() = default;

  gpu_window::Own own_;
  std::vector<std::shared_ptr<std::byte>> of_others_;
  SharedStaging staging_;
  bool is_abandoned_ = true;  // until all ranks have agreed: who has may use it
};

}  // namespace ddl
