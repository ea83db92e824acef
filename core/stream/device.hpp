// The CUDA driver of this process, loaded and started at the first question, and what communicators need to
// know of its devices. Thread safety: all. Contexts belong to the program; primary ones that we had to make
// are kept for good, as the CUDA runtime keeps them.
#pragma once

#include <string>

#include "core/device/cuda_driver.hpp"

namespace ddl::gpu {

/// Null where there is none that can be used, or no device.
const cuda::Driver* driver();

/// The context that is current to this thread, else the first device's; null when the driver refuses.
cuda::Context current_context();
cuda::Context context_of_device(int ordinal);
/// -1 when the driver refuses.
int device_of(cuda::Context context);
/// The same text in all processes that use this device, and in no other.
std::string identity_of(cuda::Context context);

}  // namespace ddl::gpu
