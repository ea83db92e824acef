#include "core/topology/nics.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>

namespace ddl {
namespace {

namespace fs = std::filesystem;

// First line of a small file; nothing when it cannot be opened or read (the kernel answers EINVAL for some).
std::optional<std::string> read_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!in || !std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<int> to_int(const std::string& text) {
  int value = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

std::optional<int> read_int(const fs::path& file) {
  std::optional<std::string> line = read_line(file);
  return line ? to_int(*line) : std::nullopt;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool starts_with(const std::string& text, std::string_view start) { return text.rfind(start, 0) == 0; }

// DEVTYPE of the interface's uevent file: "bridge", "vlan", "wlan", "bond", ...; "" for a plain one.
std::string device_type(const fs::path& dir) {
  std::ifstream in(dir / "uevent");
  std::string line;
  while (std::getline(in, line))
    if (starts_with(line, "DEVTYPE=")) return line.substr(8);
  return {};
}

std::string kind_in_sysfs(const fs::path& dir) {
  constexpr int kInfiniband = 32;  // ARPHRD_INFINIBAND
  std::string type = device_type(dir);
  if (is_there(dir / "bridge") || type == "bridge") return "bridge";
  if (is_there(dir / "bonding") || type == "bond") return "bond";
  if (is_there(dir / "wireless") || type == "wlan") return "wireless";
  if (is_there(dir / "tun_flags")) return "tunnel";
  if (type == "vlan") return "vlan";
  if (read_int(dir / "type") == kInfiniband) return "infiniband";
  return is_there(dir / "device") ? "ethernet" : "virtual";
}

void find_kind(Nic& nic, const fs::path& dir, const DriverFacts& driver) {
  auto set = [&](std::string kind, std::string source) {
    nic.kind = std::move(kind);
    nic.sources["kind"] = std::move(source);
  };
  if (nic.loopback) return set("loopback", "getifaddrs");
  if (starts_with(nic.name, "docker")) return set("docker", "getifaddrs");
  if (is_there(dir)) return set(kind_in_sysfs(dir), "sysfs");
  if (driver.driver == "bridge") return set("bridge", "ethtool");
  if (driver.driver == "veth") return set("virtual", "ethtool");
  if (driver.driver == "tun") return set("tunnel", "ethtool");
  set("unknown", driver.driver.empty() ? "getifaddrs" : "ethtool");
  nic.notes.push_back(fmt::format("kind unknown: no entry for {} in sysfs", nic.name));
}

void find_speed(Nic& nic, const fs::path& dir, const DriverFacts& driver) {
  if (nic.loopback) return;
  std::optional<int> mbit = read_int(dir / "speed");
  if (mbit && *mbit > 0) {
    nic.gbit = *mbit / 1000.0;
    nic.sources["gbit"] = "sysfs";
  } else if (driver.gbit > 0) {
    nic.gbit = driver.gbit;
    nic.sources["gbit"] = "ethtool";
  } else {
    nic.notes.push_back(mbit ? "speed unknown: the driver does not state one"
                             : "speed unknown: sysfs has no readable speed file, ethtool does not answer");
  }
}

// A bus id of PCI: dddd:bb:dd.f
bool looks_like_pci(const std::string& name) {
  return name.size() >= 12 && name[name.size() - 8] == ':' && name[name.size() - 5] == ':' &&
         name[name.size() - 2] == '.';
}

// The link "device" points into the device tree; a virtio device hangs one level below its PCI device.
void find_place(Nic& nic, const fs::path& dir) {
  std::error_code failed;
  fs::path device = fs::canonical(dir / "device", failed);
  if (failed) return;
  for (fs::path place = device; place.has_relative_path() && nic.pci.empty(); place = place.parent_path())
    if (looks_like_pci(place.filename().string())) {
      nic.pci = place.filename().string();
      nic.sources["pci"] = "sysfs";
      if (std::optional<int> numa = read_int(place / "numa_node"); numa && *numa >= 0) {
        nic.numa = *numa;
        nic.sources["numa"] = "sysfs";
      }
    }
}

void find_link_state(Nic& nic, const fs::path& dir) {
  // IFF_RUNNING is the answer; operstate only explains it.
  if (nic.running || !nic.up) return;
  if (std::optional<std::string> state = read_line(dir / "operstate"))
    nic.notes.push_back(fmt::format("link not running: operstate {}", *state));
}

Nic describe(const InterfaceFacts& facts, const fs::path& dir, const DriverFacts& driver) {
  Nic nic;
  nic.name = facts.name;
  nic.up = facts.flags & IFF_UP;
  nic.running = facts.flags & IFF_RUNNING;
  nic.loopback = facts.flags & IFF_LOOPBACK;
  for (const char* fact : {"name", "up", "running", "loopback"}) nic.sources[fact] = "getifaddrs";
  if (!facts.addresses.empty()) {
    nic.address = facts.addresses.front();
    nic.prefix = facts.prefixes.front();
    nic.sources["address"] = "getifaddrs";
  }
  for (std::size_t i = 1; i < facts.addresses.size(); ++i)
    nic.notes.push_back(
        fmt::format("further address {}/{} is not used", facts.addresses[i], facts.prefixes[i]));
  find_kind(nic, dir, driver);
  find_speed(nic, dir, driver);
  find_place(nic, dir);
  find_link_state(nic, dir);
  return nic;
}

// Why this interface cannot be a rail; "" when it can. A wanted one is excused for its kind.
enum class Wish { none, by_name };
std::string reason_against(const Nic& nic, Wish wish) {
  if (wish == Wish::none) {
    if (nic.loopback) return "loopback: reaches no other host";
    if (nic.kind == "docker") return "docker network: private to this host";
    if (nic.kind == "bridge") return "bridge: usually private to this host";
  }
  if (!nic.up) return "down";
  if (!nic.running) return "up, but the link is not running";
  if (nic.address.empty()) return "has no IPv4 address";
  return {};
}

void consider(RailChoice& choice, const Nic& nic, Wish wish) {
  std::string reason = reason_against(nic, wish);
  if (reason.empty())
    choice.rails.push_back(nic);
  else
    choice.skipped.push_back({nic.name, reason});
}

}  // namespace

std::vector<Nic> describe_nics(const std::vector<InterfaceFacts>& interfaces, const fs::path& sysfs_net,
                               const AskDriver& driver) {
  std::vector<Nic> nics;
  for (const InterfaceFacts& facts : interfaces)
    nics.push_back(describe(facts, sysfs_net / facts.name, driver ? driver(facts.name) : DriverFacts{}));
  return nics;
}

RailChoice choose_rails(const std::vector<Nic>& nics, const std::vector<std::string>& wanted) {
  RailChoice choice;
  if (wanted.empty()) {
    for (const Nic& nic : nics) consider(choice, nic, Wish::none);
    return choice;
  }
  for (const std::string& name : wanted) {
    auto found = std::find_if(nics.begin(), nics.end(), [&](const Nic& nic) { return nic.name == name; });
    if (found == nics.end())
      choice.missing.push_back(name);
    else
      consider(choice, *found, Wish::by_name);
  }
  for (const Nic& nic : nics)
    if (std::find(wanted.begin(), wanted.end(), nic.name) == wanted.end())
      choice.skipped.push_back({nic.name, "not among the wanted rails"});
  return choice;
}

std::vector<Nic> rail_candidates(const std::vector<Nic>& nics, const std::vector<std::string>& wanted) {
  return choose_rails(nics, wanted).rails;
}

double rated_gbit(const Nic& nic) {
  bool real = nic.kind == "ethernet" || nic.kind == "infiniband" || nic.kind == "bond";
  return real ? nic.gbit : 0;
}

std::string subnet_of(const Nic& nic) {
  in_addr address{};
  if (nic.prefix < 0 || nic.prefix > 32 || inet_pton(AF_INET, nic.address.c_str(), &address) != 1) return {};
  std::uint32_t mask = nic.prefix == 0 ? 0 : ~std::uint32_t{0} << (32 - nic.prefix);
  address.s_addr &= htonl(mask);
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address, text, sizeof text);
  return fmt::format("{}/{}", text, nic.prefix);
}

}  // namespace ddl
