// What NCCL takes between hosts, as far as it can be known before it says so. Thread safety: pure functions
// of the environment and the file system.
#pragma once

namespace ddl::nccl {

/// Sockets, so that its bytes go through the processor as ours do. NCCL_NET, NCCL_NET_PLUGIN and
/// NCCL_IB_DISABLE say, else whether there is anything better.
bool takes_sockets();

}  // namespace ddl::nccl
