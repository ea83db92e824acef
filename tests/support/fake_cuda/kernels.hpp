// Host twins of our device kernels, for the test double: what core/device/kernels/reduce.cu computes, written
// again in plain C++. They are the double's own: nothing that ships contains them.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "core/device/kernels/arguments.hpp"

namespace fake_cuda {

struct Twin {
  std::size_t element_bytes;
  /// With addresses that the host can use.
  std::function<void(const ddl::kernels::ReduceArguments&)> run;
};

/// The twin of a kernel, by the kernel's name; null where there is no such kernel.
const Twin* twin_of(std::string_view kernel);

}  // namespace fake_cuda
