// The reduction kernels on one device: loaded once for each context, and launched on streams.
//
// All functions are looked up when the kernels are loaded, because CUDA may wait for the whole device when it
// loads one later, and so for ranks that wait for it. Thread safety: all. Ownership: what is loaded is the
// process's, for good.
#pragma once

#include <array>
#include <span>
#include <string>

#include "core/device/cuda_driver.hpp"
#include "core/device/kernels/arguments.hpp"
#include "core/reduce/types.hpp"

namespace ddl {

enum class DeviceOp : std::uint8_t { sum, prod, min, max, average };
inline constexpr int kDeviceOps = 5;
constexpr std::string_view name_of(DeviceOp op) {
  constexpr std::string_view names[kDeviceOps] = {"sum", "prod", "min", "max", "average"};
  return names[static_cast<int>(op)];
}

/// What a launch does once all of it has been read and written: flags that become `value`. With the kernel,
/// because an operation of the stream for them costs its caller 0.8 us (an H200's machine).
struct RaisedAfterwards {
  std::span<const cuda::DevicePointer> flags;  // at most kMostBuffers, of 32 bits
  std::uint32_t value = 0;
  unsigned raiser = 0;  // see ReduceKernels::new_raiser(); of launches that come one after the other
};

class ReduceKernels {
 public:
  struct Loaded {
    const ReduceKernels* kernels;  // null: there are none
    std::string why;               // then: problem, why, cure
  };
  /// Those of this context.
  static const Loaded& of(const cuda::Driver& driver, cuda::Context context);

  /// There are none for integers of 16 bits, which NCCL has not.
  bool has(DType type, DeviceOp op) const { return function(type, op) != nullptr; }

  /// On `stream`: every out = the reduction of all ins, in their order; see kernels/arguments.hpp. The
  /// context is current; 1 to kMostBuffers each; has(type, op). Without elements
  /// nothing is launched, and there are no flags.
  cuda::Result launch(DType type, DeviceOp op, std::span<const cuda::DevicePointer> ins,
                      std::span<const cuda::DevicePointer> outs, Elements count, cuda::Stream stream,
                      const RaisedAfterwards& raised = {}) const;

  /// A number for launches that raise flags, of this process for good. Throws Error when there are no more.
  static unsigned new_raiser();

  /// The most blocks that a launch has: enough for all memory bandwidth, and no more.
  unsigned most_blocks() const { return most_blocks_; }

 private:
  explicit ReduceKernels(const cuda::Driver& driver) : driver_(driver) {}
  static Loaded load(const cuda::Driver& driver, cuda::Context context);
  cuda::Function function(DType type, DeviceOp op) const {
    return functions_[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
  }

  const cuda::Driver driver_;  // a copy: kernels are kept for as long as the process lives
  std::array<std::array<cuda::Function, kDeviceOps>, kDTypes> functions_{};
  unsigned most_blocks_ = 1;
};

}  // namespace ddl
