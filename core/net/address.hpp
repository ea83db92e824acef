// Addresses of the internet protocol as plain bytes, which can travel in a message as they are.
//
// Thread safety: values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ddl {

/// An address without port. Family 4 uses the first 4 bytes, family 6 all 16; 0 is no address.
struct IpAddress {
  std::uint8_t family = 0;
  std::array<std::uint8_t, 16> bytes{};
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

/// From text such as "10.0.0.1" or "fd00::1"; family 0 where it is neither.
IpAddress parse_address(const std::string& text);

struct Endpoint {
  IpAddress address;
  std::uint16_t port = 0;
  /// "10.0.0.1:80" or "[fd00::1]:80".
  std::string text() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// The IPv6 addresses of these interfaces, without loopback and without those of one link only, which need to
/// know the interface of the caller.
std::vector<IpAddress> ipv6_addresses_of(const std::vector<std::string>& interfaces);

}  // namespace ddl
