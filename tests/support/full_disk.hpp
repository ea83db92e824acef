// While it lives, files of this process cannot grow beyond 500 bytes, as on a full disk. No device such as
// /dev/full: a writer that is wrong would replace it.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace ddl::test {

class FullDisk {
 public:
  FullDisk() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit few = before_;
    few.rlim_cur = 500;
    ::setrlimit(RLIMIT_FSIZE, &few);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

}  // namespace ddl::test
