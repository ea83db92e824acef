// Names of hosts as numbers.
#pragma once

#include <string>
#include <vector>

namespace ddl {

/// Every address of a host, as text such as "10.0.0.1" or "fd00::1", IPv4 before IPv6; of a name or of a
/// number itself. Error where there is none. May ask a name server, and wait for it.
std::vector<std::string> resolve(const std::string& host);

}  // namespace ddl
