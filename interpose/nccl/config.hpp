// The configurations that programs give their communicators (ncclConfig_t), as far as those of our own heed
// them. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "interpose/nccl/nccl_api.h"

namespace ddl::nccl {

struct GivenConfig {
  std::vector<std::byte> bytes;  // a copy; empty where the program gave none
  // What it points to, which NCCL copies as well.
  std::vector<std::shared_ptr<const std::string>> texts;
  std::string trouble;  // why NCCL would refuse it; "" when it would not
};

/// Reads no more than NCCL itself would: the size that an uninitialised one names may be anything.
GivenConfig copy_of(const ncclConfig_t* config);

}  // namespace ddl::nccl
