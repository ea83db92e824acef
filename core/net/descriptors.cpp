#include "core/net/descriptors.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>

#include "core/base/error.hpp"

namespace ddl {
namespace {

std::mutex shares_mutex;
std::uint64_t shared_out = 0;  // of all shares of the process

}  // namespace

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

DescriptorShare::DescriptorShare(std::uint64_t wanted) : wanted_(wanted) {
  std::lock_guard lock(shares_mutex);
  const std::uint64_t all = shared_out + wanted;
  rlimit limit{};
  if (shared_out > 0 && ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < all) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(2 * limit.rlim_cur, 4 * all));
    if (limit.rlim_cur / 4 < all || ::setrlimit(RLIMIT_NOFILE, &limit) != 0)
      throw Error("the engine's groups have a quarter of the files that this process may have open",
                  fmt::format("{} in all", limit.rlim_max),
                  "raise `ulimit -n` to have more groups on the engine");
  }
  shared_out = all;
}

DescriptorShare::~DescriptorShare() {
  std::lock_guard lock(shares_mutex);
  shared_out -= wanted_;
}

}  // namespace ddl
