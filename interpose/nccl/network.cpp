#include "interpose/nccl/network.hpp"

#include <strings.h>

#include "core/base/env.hpp"
#include "core/topology/rdma.hpp"

namespace ddl::nccl {

bool takes_sockets() {
  const std::string net = foreign_env("NCCL_NET"), plugin = foreign_env("NCCL_NET_PLUGIN");
  if (!net.empty()) return strcasecmp(net.c_str(), "Socket") == 0;
  if (!plugin.empty() && plugin != "none") return false;
  return foreign_env("NCCL_IB_DISABLE") == "1" || !has_active_rdma();
}

}  // namespace ddl::nccl
