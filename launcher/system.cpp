#include "launcher/system.hpp"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/base/file.hpp"
#include "launcher/mpirun_info.hpp"

extern char** environ;

namespace ddl {
namespace {

constexpr std::size_t kMostFile = 16 << 20;  // hostfiles and rankfiles; /dev/zero has no end

std::optional<std::string> readable(const std::string& path) {
  FileText file = read_file(path, kMostFile);
  if (!file.trouble.empty()) return std::nullopt;
  return std::move(file.text);
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

bool same_address(const sockaddr* a, const sockaddr* b) {
  if (!a || !b || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET)
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr,
                       &reinterpret_cast<const sockaddr_in*>(b)->sin_addr, sizeof(in_addr)) == 0;
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

// Another name of this machine: one of its addresses is one of ours.
bool has_own_address(const std::string& host) {
  addrinfo* found = nullptr;
  ifaddrs* ours = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  bool same = false;
  if (getifaddrs(&ours) == 0)
    for (addrinfo* theirs = found; theirs; theirs = theirs->ai_next)
      for (ifaddrs* own = ours; own; own = own->ifa_next)
        same = same || same_address(theirs->ai_addr, own->ifa_addr);
  if (ours) freeifaddrs(ours);
  freeaddrinfo(found);
  return same;
}

// Debian keeps them apart from the programs.
Strings mpirun_folders() {
  Strings folders = {"/etc/openmpi"};
  std::error_code failed;
  const auto file = std::filesystem::canonical(find_on_path("mpirun", foreign_env("PATH"), "."), failed);
  if (!failed) folders.push_back((file.parent_path().parent_path() / "etc").string());
  return folders;
}

}  // namespace

bool is_own_name(const std::string& host, const std::string& this_host) {
  return host == this_host || host == this_host.substr(0, this_host.find('.')) || host == "localhost" ||
         host.rfind("127.", 0) == 0;
}

System this_system() {
  System world;
  world.variable = [](const std::string& name) { return foreign_env(name.c_str()); };
  world.file = readable;
  world.host = host_name();
  std::error_code failed;
  world.directory = std::filesystem::current_path(failed).string();
  if (const char* list = std::getenv("CUDA_VISIBLE_DEVICES")) world.visible_gpus = list;
  world.root = geteuid() == 0;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("DDL_")) world.entries.emplace_back(text);
    if (text.starts_with("OMPI_MCA_") || text.starts_with("PRTE_MCA_")) world.mca_entries.emplace_back(text);
  }
  world.mpirun_folders = mpirun_folders();
  world.is_here = [name = world.host](const std::string& named) {
    const std::string host = named.substr(named.find('@') + 1);  // of user@host
    return is_own_name(host, name) || has_own_address(host);
  };
  return world;
}

Installation installation_of(const std::string& program_file) {
  std::filesystem::path bin = std::filesystem::path(program_file).parent_path();
  return {bin.string(), (bin.parent_path() / "lib").string()};
}

Installation this_installation() {
  std::error_code failed;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed)
    throw Error("cannot find this program's own file", "/proc/self/exe: " + failed.message(), "mount /proc");
  return installation_of(self.string());
}

std::string absolute_path(const std::string& path, const std::string& directory) {
  if (path.empty()) return directory;
  const std::size_t start = path.starts_with("./") ? path.find_first_not_of('/', 1) : 0;
  return (std::filesystem::path(directory) / path.substr(std::min(start, path.size()))).string();
}

}  // namespace ddl
