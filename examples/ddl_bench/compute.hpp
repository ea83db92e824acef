// What stands for computing: a number of operations of the processor, not a span of the clock. Whatever else
// uses the processor meanwhile, as a communication thread may, makes it take longer, as it would real
// computing.
#pragma once

#include <cstdint>

namespace bench {

enum class Computing : std::uint8_t {
  busy,   // on the processor
  sleep,  // elsewhere, as on an accelerator: the processor is free
};

class Compute {
 public:
  /// Finds out how fast the processor is, which takes some hundredths of a second.
  explicit Compute(Computing how);
  /// As much as takes so long on a processor of one's own.
  void run(double seconds);

 private:
  void work(std::uint64_t rounds);

  const Computing how_;
  double rounds_per_second_ = 0;
  volatile double result_ = 1;
};

}  // namespace bench
