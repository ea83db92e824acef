#include "core/bootstrap/rendezvous_id.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/bootstrap/host_identity.hpp"
#include "core/topology/nics.hpp"

namespace ddl {
namespace {

constexpr std::array<char, 8> kMagic = {'d', 'd', 'l', '-', 'r', 'd', 'v', '1'};

RendezvousId::Token fresh_token() {
  RendezvousId::Token token{};
  for (std::size_t have = 0; have < token.size();) {
    ssize_t got = ::getrandom(token.data() + have, token.size() - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Error(fmt::format("the kernel gives no random numbers: {}", std::strerror(errno)),
                  "a communicator is protected by a secret");
    have += static_cast<std::size_t>(got);
  }
  return token;
}

// Interfaces that lead to other hosts, whatever kind of address they have.
std::vector<std::string> outward_interfaces(const std::vector<Nic>& nics,
                                            const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const Nic& nic : nics) {
    bool named = std::find(wanted.begin(), wanted.end(), nic.name) != wanted.end();
    bool outward = !nic.loopback && nic.kind != "docker" && nic.kind != "bridge";
    if (nic.up && nic.running && (wanted.empty() ? outward : named)) names.push_back(nic.name);
  }
  return names;
}

}  // namespace

RendezvousId RendezvousId::make(std::uint16_t port, const std::vector<IpAddress>& where) {
  RendezvousId id;
  id.magic = kMagic;
  id.token = fresh_token();
  id.host = loopback_realm();
  id.port = port;
  id.addresses = static_cast<std::uint8_t>(std::min(where.size(), kMaxAddresses));
  std::copy_n(where.begin(), id.addresses, id.address.begin());
  return id;
}

bool RendezvousId::is_ours(std::span<const std::byte, kBytes> bytes) { return from(bytes).has_value(); }

std::optional<RendezvousId> RendezvousId::from(std::span<const std::byte, kBytes> bytes) {
  RendezvousId id;
  std::memcpy(&id, bytes.data(), kBytes);
  if (id.magic != kMagic || id.port == 0 || id.addresses > kMaxAddresses) return std::nullopt;
  return id;
}

std::span<const std::byte, RendezvousId::kBytes> RendezvousId::bytes() const {
  return std::span<const std::byte, kBytes>(reinterpret_cast<const std::byte*>(this), kBytes);
}

RendezvousId RendezvousId::part(std::uint64_t number, std::int64_t color) const {
  RendezvousId id = *this;
  id.subgroup = hash_of(fmt::format("{} {} {}", subgroup, number, color)) | 1;
  return id;
}

std::vector<IpAddress> RendezvousId::places() const {
  std::vector<IpAddress> all;
  if (host == loopback_realm()) all = {parse_address("127.0.0.1"), parse_address("::1")};
  for (std::size_t i = 0; i < std::min<std::size_t>(addresses, kMaxAddresses); ++i)
    if (std::find(all.begin(), all.end(), address[i]) == all.end()) all.push_back(address[i]);
  return all;
}

std::uint64_t loopback_realm() {
  struct stat network {};
  ::stat("/proc/self/ns/net", &network);
  return hash_of(fmt::format("{} {}", host_identity().boot_id, network.st_ino));
}

std::vector<IpAddress> reachable_addresses(const std::vector<std::string>& wanted) {
  std::vector<Nic> nics = list_nics();
  std::vector<IpAddress> addresses;
  for (const Nic& nic : choose_rails(nics, wanted).rails) addresses.push_back(parse_address(nic.address));
  for (const IpAddress& six : ipv6_addresses_of(outward_interfaces(nics, wanted))) addresses.push_back(six);
  if (addresses.empty())
    for (const Nic& nic : nics)
      if (nic.up && !nic.loopback && !nic.address.empty()) addresses.push_back(parse_address(nic.address));
  if (addresses.empty()) addresses.push_back(parse_address("127.0.0.1"));
  return addresses;
}

}  // namespace ddl
