#include "core/bootstrap/host_identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace ddl {

HostIdentity host_identity() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  HostIdentity identity{name, {}, {}};
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::getline(boot, identity.boot_id);
  struct stat info {};
  if (::stat("/proc/self/ns/ipc", &info) == 0) identity.ipc = std::to_string(info.st_ino);
  return identity;
}

std::string text_of(const HostIdentity& identity) {
  return identity.host + '\n' + identity.boot_id + '\n' + identity.ipc;
}

}  // namespace ddl
