// Meeting: where the ranks that hold one unique id come together and decide alike whose communicator it is
// going to be: ours where NCCL would refuse (two ranks on one GPU) or a rank has none, else the original's.
//
//   card = version u32, has_original u8, identity of the device (see native::identity_of)
//
// The rule a user can break: after the constructor exactly one of share() and open(), as is_ours() says.
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/env.hpp"
#include "core/native/native_communicator.hpp"

namespace ddl {

class Meeting {
 public:
  enum class Original { present, absent };

  /// Waits for all ranks; throws Error when they do not come.
  Meeting(const RendezvousId& id, Rank rank, Rank size, Original original, cuda::Context context, Env env);

  bool is_ours() const { return !why_ours_.empty(); }
  /// Everybody gets what rank 0 brings.
  std::vector<std::byte> share(std::span<const std::byte> of_rank_0);
  std::unique_ptr<NativeCommunicator> open();

 private:
  std::shared_ptr<Rendezvous> seat_;
  RendezvousId::Token group_;
  cuda::Context context_;
  Env env_;
  std::string why_ours_;
};

}  // namespace ddl
