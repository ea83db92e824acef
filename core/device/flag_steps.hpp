// What a stream does with flags, step by step: raises some and waits for others. Enqueued together, because a
// call of the driver costs a microsecond or two. Thread safety: none.
#pragma once

#include <span>
#include <vector>

#include "core/device/flag.hpp"

namespace ddl {

class FlagSteps {
 public:
  /// What came before on the stream is visible first.
  void raise(std::span<const cuda::DevicePointer> flags, std::uint32_t value) {
    for (cuda::DevicePointer flag : flags)
      steps_.push_back({cuda::kOperationWrite, flag, value, cuda::kWriteValueDefault});
  }
  void await(const Flag& flag, std::uint32_t value) {
    steps_.push_back({cuda::kOperationWait, flag.on_device, value, cuda::kWaitValueGreaterOrEqual});
  }
  /// In their order, on a device that has stream memory operations. There are none left afterwards.
  cuda::Result enqueue(const cuda::Driver& driver, cuda::Stream stream) {
    cuda::Result result = cuda::kSuccess;
    const std::size_t together = driver.stream_batch ? cuda::kMostOperations : 1;
    for (std::size_t first = 0; result == cuda::kSuccess && first < steps_.size(); first += together)
      result = some(driver, stream, first, std::min(together, steps_.size() - first));
    steps_.clear();
    return result;
  }

 private:
  cuda::Result some(const cuda::Driver& driver, cuda::Stream stream, std::size_t first, std::size_t count) {
    cuda::MemoryOperation& one = steps_[first];
    if (count > 1) return driver.stream_batch(stream, static_cast<unsigned>(count), &one, 0);
    const auto function =
        one.operation == cuda::kOperationWait ? driver.stream_wait_value : driver.stream_write_value;
    return function(stream, one.address, static_cast<std::uint32_t>(one.value), one.flags);
  }

  std::vector<cuda::MemoryOperation> steps_;
};

}  // namespace ddl
