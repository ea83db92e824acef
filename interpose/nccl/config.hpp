// The configurations that programs give their communicators (ncclConfig_t): the one place that knows how they
// are laid out. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
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

/// Whether a communicator with that configuration (empty: the defaults) blocks while it is made.
bool is_blocking(std::span<const std::byte> program_config);

/// The configuration of a smaller communicator: the program's, or NCCL's defaults where it gave none; with
/// blocking calls, resources of its own, and so few CTAs that the kernels of several fit on a GPU at once.
std::vector<std::byte> capped_config(std::span<const std::byte> program_config);

}  // namespace ddl::nccl
