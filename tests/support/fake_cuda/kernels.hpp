// Our device kernels for the test double: their own source, core/device/kernels/reduce.cu, compiled for the
// host. What it says is tested; what nvcc makes of it is not. Nothing that ships contains this.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/device/kernels/arguments.hpp"

namespace fake_cuda {

struct Twin {
  std::size_t element_bytes;
  void (*kernel)(ddl::kernels::ReduceArguments);
};

/// The twin of a kernel, by the kernel's name; null where there is no such kernel.
const Twin* twin_of(std::string_view kernel);

/// All threads of all blocks, one after the other, with addresses that the host can use.
void run(const Twin& twin, unsigned blocks, unsigned threads, const ddl::kernels::ReduceArguments& arguments);

}  // namespace fake_cuda
