// Two ranks that talk over TcpTransport on loopback, what arrives at them, and messages to send.
#pragma once

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/transport/tcp.hpp"

namespace ddl::test {

inline constexpr Nanoseconds kPatience = 20'000'000'000;

struct Arrived {
  Header header;
  std::vector<std::byte> bytes;
};

// Copies what arrives and releases it at once, or keeps the views until they are released.
struct Copied : MessageHandler {
  std::vector<Arrived> messages;
  std::vector<std::pair<Rank, std::string>> failures;
  bool keeps = false;
  std::vector<View> kept;

  void deliver(const Header& header, const View& view) override {
    const auto* begin = static_cast<const std::byte*>(view.data());
    messages.push_back({header, {begin, begin + view.bytes()}});
    View copy = view;
    if (keeps) {
      kept.push_back(copy);
    } else {
      copy.release();
    }
  }
  void peer_failed(Rank peer, const std::string& why) override { failures.emplace_back(peer, why); }
};

// Two ranks on loopback.
struct TcpPair {
  TcpTransport a, b;
  Copied at_a, at_b;

  explicit TcpPair(std::vector<TcpRail> rails = {{"lo", "127.0.0.1"}}) : a(rails, 0), b(rails, 1) {
    std::vector<std::size_t> interfaces(rails.size());
    std::iota(interfaces.begin(), interfaces.end(), 0);
    std::vector<std::vector<WireAddress>> addresses(2);
    for (std::size_t interface : interfaces) {
      addresses[0].push_back(a.address(interface));
      addresses[1].push_back(b.address(interface));
    }
    a.set_rails(interfaces, addresses);
    b.set_rails(interfaces, addresses);
  }
  // Moves both until it is so; false when that takes too long.
  bool until(const std::function<bool()>& so) {
    for (Nanoseconds end = now() + kPatience; now() < end;) {
      a.progress(at_a);
      b.progress(at_b);
      if (so()) return true;
    }
    return false;
  }
};

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned salt) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 2654435761u + i / 251 + salt);
  return data;
}

inline bool send(TcpTransport& from, Rank to, std::span<const std::byte> payload, std::uint64_t tag,
                 std::uint32_t& unfinished, std::uint32_t rail = 0) {
  const Rank target[] = {to};
  Outgoing message{};
  message.header.tag = tag;
  message.header.from = 1 - to;
  message.header.bytes = static_cast<std::uint32_t>(payload.size());
  message.payload = payload;
  message.to = target;
  message.rail = rail;
  message.unfinished = &unfinished;
  return from.send(message);
}

inline const Arrived* find(const Copied& handler, std::uint64_t tag) {
  for (const Arrived& one : handler.messages)
    if (one.header.tag == tag) return &one;
  return nullptr;
}

inline constexpr std::size_t kSizes[] = {0,   1,    64,    65,    88,        89,     256,
                                         257, 5000, 16344, 16345, 100 << 10, 1 << 20};

}  // namespace ddl::test
