// The part of the interface list that asks the running kernel: getifaddrs and the ethtool ioctl.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "core/topology/nics.hpp"

namespace ddl {
namespace {

void add_address(InterfaceFacts& facts, const ifaddrs& entry) {
  char text[INET_ADDRSTRLEN] = {};
  sockaddr_in address{}, mask{};
  std::memcpy(&address, entry.ifa_addr, sizeof address);
  if (entry.ifa_netmask) std::memcpy(&mask, entry.ifa_netmask, sizeof mask);
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  facts.addresses.emplace_back(text);
  facts.prefixes.push_back(std::popcount(mask.sin_addr.s_addr));
}

std::vector<InterfaceFacts> ask_getifaddrs() {
  std::vector<InterfaceFacts> interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return interfaces;
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    // An address label ("eth0:1") is another name for the same interface.
    std::string name(entry->ifa_name, std::strcspn(entry->ifa_name, ":"));
    auto found =
        std::find_if(interfaces.begin(), interfaces.end(), [&](auto& facts) { return facts.name == name; });
    if (found == interfaces.end())
      found = interfaces.insert(interfaces.end(), {name, entry->ifa_flags, {}, {}});
    if (entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET) add_address(*found, *entry);
  }
  return interfaces;
}

bool ethtool(int socket, const std::string& name, void* question) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = static_cast<char*>(question);
  return ioctl(socket, SIOCETHTOOL, &request) == 0;
}

// The old form of the speed question: the new one needs two calls and a variable-length answer for the same
// number.
DriverFacts ask_ethtool(const std::string& name) {
  DriverFacts facts;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return facts;
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  if (ethtool(fd, name, &driver))
    facts.driver.assign(driver.driver, strnlen(driver.driver, sizeof driver.driver));
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;
  if (ethtool(fd, name, &settings)) {
    std::uint32_t mbit = ethtool_cmd_speed(&settings);
    if (mbit != 0 && mbit < 10'000'000) facts.gbit = mbit / 1000.0;  // unknown is 0, 65535 << 16 or all ones
  }
  close(fd);
  return facts;
}

}  // namespace

std::vector<Nic> list_nics() { return describe_nics(ask_getifaddrs(), "/sys/class/net", ask_ethtool); }

}  // namespace ddl
