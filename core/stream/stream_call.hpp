// One call of a program on a communicator of our own, as a value.
#pragma once

#include "core/collective/call.hpp"
#include "core/device/cuda_driver.hpp"
#include "core/stream/scaling.hpp"

namespace ddl {

struct StreamCall {
  enum class Scale { none, times_scalar, average };

  Kind kind = Kind::all_reduce;
  cuda::DevicePointer in = 0, out = 0;
  Elements count = 0;  // of one block, see Call
  DType type = DType::float32;
  Op op = Op::sum;
  Scale scale = Scale::none;
  Scalar scalar{};
  Rank root = 0;
  cuda::Stream stream = nullptr;
  const char* name = "";  // for people, a literal
};

}  // namespace ddl
