// The 161 tensors of ResNet-50 (He et al., "Deep Residual Learning for Image Recognition", 2015, table 1),
// whose gradients a data-parallel job reduces in every step.
#pragma once

#include <cstdint>
#include <vector>

namespace calls {

// Bytes of the gradients in float32, in the order in which a backward pass has them ready: last layer first.
std::vector<std::uint64_t> resnet50_gradients();

}  // namespace calls
