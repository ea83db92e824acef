// Ranks of one host that are transports in this process, on regions of their own.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/transport/shared_memory.hpp"

namespace ddl::test {

inline constexpr Bytes kStaging = Bytes{1} << 20;

// Keeps what arrives, without releasing it.
struct Kept : MessageHandler {
  std::vector<std::pair<Header, View>> messages;
  void deliver(const Header& header, const View& view) override { messages.emplace_back(header, view); }
  void peer_failed(Rank, const std::string&) override {}
};

inline std::vector<LocalPeer> peers_of(int ranks) {
  std::vector<LocalPeer> peers;
  for (Rank rank = 0; rank < ranks; ++rank)
    peers.push_back(
        {rank, std::make_shared<Region>(Region::create(ranks, StagingPool::region_bytes(kStaging), 5))});
  return peers;
}

struct MemoryPair {
  std::vector<LocalPeer> peers = peers_of(2);
  std::unique_ptr<SharedMemoryTransport> a, b;
  MemoryPair() {
    a = std::make_unique<SharedMemoryTransport>(peers, 0, kStaging);
    b = std::make_unique<SharedMemoryTransport>(peers, 1, kStaging);
  }
  void open_bells() {
    for (LocalPeer& peer : peers) peer.region->open_bell();
  }
};

inline Outgoing message_of(std::span<const std::byte> payload, std::span<const Rank> to) {
  Outgoing message{};
  message.header.bytes = static_cast<std::uint32_t>(payload.size());
  message.payload = payload;
  message.to = to;
  return message;
}

}  // namespace ddl::test
