// Descriptors for a crowd of connections.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace ddl::test {

/// While it lives, a test may have as many open as its user may.
class ManyFiles {
 public:
  ManyFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit most{before_.rlim_max, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &most);
  }
  ~ManyFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  ManyFiles(const ManyFiles&) = delete;
  ManyFiles& operator=(const ManyFiles&) = delete;

  /// So many, or what there is for them beside those being refused and the rest of the process.
  int at_most(int wanted) const {
    constexpr rlim_t kOthers = 600;
    return static_cast<int>(std::min<rlim_t>(static_cast<rlim_t>(wanted), before_.rlim_max - kOthers));
  }

 private:
  rlimit before_{};
};

}  // namespace ddl::test
