// Device pointers in MPI calls: recognised through a CUDA driver that the program has already loaded, and
// staged through host memory; the CPU kernels never touch them. Where no driver is loaded every pointer is
// host memory and this costs one branch. Thread safety: all.
#pragma once

#include "core/base/types.hpp"

namespace ddl {

/// Whether one of two pointers is memory that the host cannot read.
bool is_device_memory(const void* one, const void* other);

/// Copies between device and host, either way, and waits for it; false when the driver reports an error.
bool copy_device_memory(void* to, const void* from, Bytes bytes);

}  // namespace ddl
