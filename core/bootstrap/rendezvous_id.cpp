#include "core/bootstrap/rendezvous_id.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/base/error.hpp"
#include "core/bootstrap/host_identity.hpp"
#include "core/topology/nics.hpp"

namespace ddl {
namespace {

constexpr std::array<char, 8> kMagic = {'d', 'd', 'l', '-', 'r', 'd', 'v', '1'};

RendezvousAddress address_of(const in6_addr& six) {
  RendezvousAddress address{6, {}};
  std::memcpy(address.bytes.data(), &six, sizeof(six));
  return address;
}

// FNV-1a: the same in every build of the library, which std::hash does not promise.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

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

// Without those of one link only, which need to know the interface of the caller.
std::vector<RendezvousAddress> six_of(const std::vector<std::string>& interfaces) {
  std::vector<RendezvousAddress> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET6) continue;
    sockaddr_in6 six{};
    std::memcpy(&six, entry->ifa_addr, sizeof(six));
    bool useful = !IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) && !IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    if (useful && std::find(interfaces.begin(), interfaces.end(), entry->ifa_name) != interfaces.end())
      addresses.push_back(address_of(six.sin6_addr));
  }
  return addresses;
}

}  // namespace

RendezvousAddress parse_address(const std::string& text) {
  RendezvousAddress address;
  if (::inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1)
    address.family = 4;
  else if (::inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1)
    address.family = 6;
  return address;
}

std::string text_of(const RendezvousAddress& address, std::uint16_t port) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof(text));
  return address.family == 4 ? fmt::format("{}:{}", text, port) : fmt::format("[{}]:{}", text, port);
}

socklen_t fill_socket_address(const RendezvousAddress& address, std::uint16_t port,
                              sockaddr_storage& storage) {
  storage = {};
  if (address.family == 4) {
    auto& four = reinterpret_cast<sockaddr_in&>(storage);
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&four.sin_addr, address.bytes.data(), sizeof(four.sin_addr));
    return sizeof(four);
  }
  if (address.family != 6) return 0;
  auto& six = reinterpret_cast<sockaddr_in6&>(storage);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  std::memcpy(&six.sin6_addr, address.bytes.data(), sizeof(six.sin6_addr));
  return sizeof(six);
}

RendezvousId RendezvousId::make(std::uint16_t port, const std::vector<RendezvousAddress>& where) {
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
  id.circle = hash_of(fmt::format("{} {} {}", circle, number, color)) | 1;
  return id;
}

std::vector<RendezvousAddress> RendezvousId::places() const {
  std::vector<RendezvousAddress> all;
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

std::vector<RendezvousAddress> reachable_addresses(const std::vector<std::string>& wanted) {
  std::vector<Nic> nics = list_nics();
  std::vector<RendezvousAddress> addresses;
  for (const Nic& nic : choose_rails(nics, wanted).rails) addresses.push_back(parse_address(nic.address));
  for (const RendezvousAddress& six : six_of(outward_interfaces(nics, wanted))) addresses.push_back(six);
  if (addresses.empty())
    for (const Nic& nic : nics)
      if (nic.up && !nic.loopback && !nic.address.empty()) addresses.push_back(parse_address(nic.address));
  if (addresses.empty()) addresses.push_back(parse_address("127.0.0.1"));
  return addresses;
}

}  // namespace ddl
