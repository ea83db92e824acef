// The reduction kernels as nvcc left them (kernels/reduce.cu): a fatbin for cuModuleLoadData, with machine
// code for the GPUs of the day and PTX for later ones. Thread safety: a constant.
#pragma once

#include <cstddef>
#include <span>

namespace ddl {

/// Empty where the build found no nvcc.
std::span<const std::byte> kernels_image();

}  // namespace ddl
