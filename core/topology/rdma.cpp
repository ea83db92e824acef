#include "core/topology/rdma.hpp"

#include <fstream>
#include <string>
#include <system_error>

namespace ddl {
namespace {

namespace fs = std::filesystem;

// "4: ACTIVE"
bool is_active(const fs::path& port) {
  std::ifstream in(port / "state");
  std::string line;
  return std::getline(in, line) && line.rfind("4:", 0) == 0;
}

}  // namespace

bool has_active_rdma(const fs::path& sysfs) {
  try {
    std::error_code none;  // no such directory
    for (const fs::directory_entry& device : fs::directory_iterator(sysfs, none))
      for (const fs::directory_entry& port : fs::directory_iterator(device.path() / "ports", none))
        if (is_active(port.path())) return true;
  } catch (const fs::filesystem_error&) {
    // A device that goes away while it is looked at.
  }
  return false;
}

}  // namespace ddl
