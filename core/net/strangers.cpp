#include "core/net/strangers.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace ddl {

std::size_t most_strangers() {
  constexpr rlim_t kLeast = 8, kMost = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 8, kLeast, kMost));
}

void keep_descriptors_free(int newest) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || static_cast<rlim_t>(newest) < limit.rlim_cur / 2) return;
  limit.rlim_cur = std::min(limit.rlim_max, 2 * limit.rlim_cur);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ddl
