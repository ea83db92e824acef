// Pinned host memory that is used again instead of freed: CUDA may let a free wait for everything the device
// has to do, and so for collectives that wait for whoever frees.
// The rule: what is given back is no longer in use by any stream. Thread safety: all. Ownership: blocks in
// the pool are the process's, for good.
#pragma once

#include "core/base/types.hpp"
#include "core/device/cuda_driver.hpp"

namespace ddl::pinned_pool {

struct Block {
  std::byte* host = nullptr;
  cuda::DevicePointer device = 0;
  Bytes bytes = 0;
};

/// A block that is pinned for all contexts, contents undefined; `context` is current.
cuda::Result take(const cuda::Driver& driver, cuda::Context context, Bytes bytes, Block& taken);
void give_back(cuda::Context context, const Block& block);

}  // namespace ddl::pinned_pool
