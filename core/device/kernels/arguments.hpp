// What the reduction kernels are called with: one value, understood alike by nvcc, by the host that launches
// them and by the test double of the driver.
#pragma once

namespace ddl::kernels {

constexpr unsigned kMostBuffers = 32;       // of either kind
constexpr unsigned kThreadsPerBlock = 256;  // what the kernels are compiled for, at most
constexpr unsigned kMostRaisers = 4096;     // launches that raise flags and may run at once

/// out[j][i] = in[0][i] op in[1][i] op ... for all j and i < count. An out may be one of the ins. Then, once
/// all have been read and written, the flags become `value`; count > 0 where there are any.
struct ReduceArguments {
  unsigned long long in[kMostBuffers];    // device addresses, aligned for their elements
  unsigned long long out[kMostBuffers];   // likewise
  unsigned long long flag[kMostBuffers];  // device addresses of 32 bits each, on the host or the device
  unsigned long long count;               // of elements
  unsigned ins, outs, flags, value;
  unsigned raiser;  // where there are flags: a number of this launch alone, as long as it runs
};

}  // namespace ddl::kernels
