#include "core/native/meeting.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/bootstrap/card.hpp"
#include "core/native/device.hpp"

namespace ddl {
namespace {

struct MeetingCard {
  int version = kWireVersion;
  bool has_original = false;
  std::string device;

  std::vector<std::byte> pack() const {
    std::vector<std::byte> bytes(sizeof(version) + 1 + device.size());
    std::memcpy(bytes.data(), &version, sizeof(version));
    bytes[sizeof(version)] = static_cast<std::byte>(has_original);
    std::memcpy(bytes.data() + sizeof(version) + 1, device.data(), device.size());
    return bytes;
  }
  static std::optional<MeetingCard> unpack(const std::vector<std::byte>& bytes) {
    MeetingCard card;
    if (bytes.size() < sizeof(version) + 1) return std::nullopt;
    std::memcpy(&card.version, bytes.data(), sizeof(version));
    card.has_original = bytes[sizeof(version)] != std::byte{0};
    card.device.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof(version) + 1,
                       bytes.size() - sizeof(version) - 1);
    return card;
  }
};

// "" when the original can serve these ranks. The same on all of them.
std::string why_ours(const Rendezvous::Blobs& blobs) {
  std::map<std::string, std::size_t> rank_on;
  std::string why;
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    std::optional<MeetingCard> card = MeetingCard::unpack(blobs[rank]);
    if (!card || card->version != kWireVersion)
      throw Error(fmt::format("rank {} runs another version of the engine", rank),
                  "the ranks of a communicator must speak the same language",
                  "preload the same library everywhere");
    auto [first, is_new] = rank_on.try_emplace(card->device, rank);
    if (why.empty() && !card->has_original) why = fmt::format("rank {} has no NCCL library", rank);
    if (why.empty() && !is_new)
      why = fmt::format("ranks {} and {} share a GPU, which NCCL refuses", first->second, rank);
  }
  return why;
}

}  // namespace

Meeting::Meeting(const RendezvousId& id, Rank rank, Rank size, Original original, cuda::Context context,
                 Env env)
    : seat_(std::make_shared<Rendezvous>(id, rank, size, env.timeout_s)),
      group_(id.token),
      context_(context),
      env_(std::move(env)) {
  MeetingCard mine{kWireVersion, original == Original::present, native::identity_of(context)};
  why_ours_ = why_ours(seat_->exchange(mine.pack()));
  if (rank == 0 && env_.verbose > 0)
    log_info(fmt::format("a communicator of {} rank{}: {}", size, size == 1 ? "" : "s",
                         is_ours() ? "ours, because " + why_ours_ : "NCCL's"));
}

std::vector<std::byte> Meeting::share(std::span<const std::byte> of_rank_0) {
  return seat_->exchange(seat_->rank() == 0 ? of_rank_0 : std::span<const std::byte>()).front();
}

std::unique_ptr<NativeCommunicator> Meeting::open() {
  return std::make_unique<NativeCommunicator>(std::move(seat_), group_, context_, env_);
}

}  // namespace ddl
