// The cache that the cores of a processor share, as Linux states it.
#pragma once

#include <string>

#include "core/base/types.hpp"

namespace ddl {

struct SharedCache {
  Bytes bytes = 0;  // 0: unknown
  int cores = 1;    // that share it
};

/// The last one of the core that `folder` describes (as /sys/devices/system/cpu/cpu0/cache).
SharedCache last_cache(const std::string& folder = "/sys/devices/system/cpu/cpu0/cache");

/// From how many bytes on a result is written past the cache, where that many ranks are on the host: the
/// program's two buffers of that size, of all ranks that share the cache, do not fit.
Bytes streamed_from(const SharedCache& cache, int ranks);

}  // namespace ddl
