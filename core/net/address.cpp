#include "core/net/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace ddl {

IpAddress parse_address(const std::string& text) {
  IpAddress address;
  if (::inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1)
    address.family = 4;
  else if (::inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1)
    address.family = 6;
  return address;
}

std::string Endpoint::text() const {
  char host[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.bytes.data(), host, sizeof(host));
  return address.family == 4 ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::vector<IpAddress> ipv6_addresses_of(const std::vector<std::string>& interfaces) {
  std::vector<IpAddress> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET6) continue;
    if (std::find(interfaces.begin(), interfaces.end(), entry->ifa_name) == interfaces.end()) continue;
    sockaddr_in6 six{};
    std::memcpy(&six, entry->ifa_addr, sizeof(six));
    if (IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) || IN6_IS_ADDR_LOOPBACK(&six.sin6_addr)) continue;
    IpAddress& address = addresses.emplace_back(IpAddress{6, {}});
    std::memcpy(address.bytes.data(), &six.sin6_addr, sizeof(six.sin6_addr));
  }
  return addresses;
}

}  // namespace ddl
