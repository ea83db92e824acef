// What tells one host from another. Processes may share memory when all three are equal.
#pragma once

#include <string>

namespace ddl {

struct HostIdentity {
  std::string host, boot_id, ipc;  // ipc: its IPC namespace; "" where the kernel does not tell
  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

/// This process's, now.
HostIdentity host_identity();

/// One text for all of it, to compare.
std::string text_of(const HostIdentity& identity);

}  // namespace ddl
