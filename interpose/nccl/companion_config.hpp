// ncclConfig_t as far as companions look into it. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ddl::nccl {

/// The configuration of a smaller communicator: the program's, or NCCL's defaults where it gave none; with
/// blocking calls, resources of its own, and so few CTAs that the kernels of several fit on a GPU at once.
std::vector<std::byte> capped_config(std::span<const std::byte> program_config);

/// Whether a communicator with that configuration (empty: the defaults) blocks while it is made.
bool is_blocking(std::span<const std::byte> program_config);

}  // namespace ddl::nccl
