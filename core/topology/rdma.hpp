// Whether this host has a network that moves memory without its processor: InfiniBand, RoCE, EFA.
// Thread safety: a pure function of the file system.
#pragma once

#include <filesystem>

namespace ddl {

/// A device with an active port; `sysfs` stands for /sys/class/infiniband, where the kernel lists all kinds.
bool has_active_rdma(const std::filesystem::path& sysfs = "/sys/class/infiniband");

}  // namespace ddl
