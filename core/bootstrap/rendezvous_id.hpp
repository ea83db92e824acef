// RendezvousId: 128 bytes that tell the ranks of a group where they meet. They travel through whatever
// channel the program has, in the place of an ncclUniqueId. Parts of the group can meet at the same place, in
// subgroups of their own, as long as somebody of the group is there.
//
//   magic[8]  token[16]  host u64  port u16  addresses u8  spare u8  address[4] = {family u8, bytes[16]}
//   subgroup u64  zeros
//
// The rule a user can break: who holds the id may join, so it is as secret as the program's own channel.
// Thread safety: a value. All numbers in the order of the machine: the ranks of a group are of one kind.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/net/address.hpp"

namespace ddl {

struct RendezvousId {
  static constexpr std::size_t kBytes = 128;
  static constexpr std::size_t kMaxAddresses = 4;
  using Token = std::array<std::uint8_t, 16>;

  std::array<char, 8> magic{};
  Token token{};           // strangers do not know it
  std::uint64_t host = 0;  // of the server, see loopback_realm()
  std::uint16_t port = 0;
  std::uint8_t addresses = 0;
  std::uint8_t spare = 0;
  std::array<IpAddress, kMaxAddresses> address{};
  std::uint64_t subgroup = 0;  // 0: the whole group's
  std::array<std::uint8_t, 16> zeros{};

  /// An id with a fresh token. At most kMaxAddresses addresses are kept.
  static RendezvousId make(std::uint16_t port, const std::vector<IpAddress>& where);
  static bool is_ours(std::span<const std::byte, kBytes> bytes);
  /// Nothing for bytes that are not ours.
  static std::optional<RendezvousId> from(std::span<const std::byte, kBytes> bytes);
  std::span<const std::byte, kBytes> bytes() const;

  /// Of a part of this subgroup: equal for equal numbers and colors, which nobody else has to be told.
  RendezvousId part(std::uint64_t number, std::int64_t color) const;

  /// Where to try in turn: a rank that shares the server's loopback tries that first.
  std::vector<IpAddress> places() const;
};
static_assert(sizeof(RendezvousId) == RendezvousId::kBytes);

/// Equal in processes that reach each other over the loopback interface: a hash of the boot id and the
/// network namespace.
std::uint64_t loopback_realm();

/// Addresses under which other hosts may reach this one. First those of the rails (see choose_rails; `wanted`
/// as there), IPv4 before IPv6; without any those of bridges; without any the loopback.
std::vector<IpAddress> reachable_addresses(const std::vector<std::string>& wanted);

}  // namespace ddl
