#include "core/trace/report_keeper.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace ddl {
namespace {

// The first report is written as soon as there is a keeper, and so while a program forks its ranks.
TEST(ReportKeeper, WhoForksMeanwhileHasNothingLocked) {
  std::mutex of_what_is_written;
  std::atomic<bool> writes{false};
  ReportKeeper keeper([&] {
    std::lock_guard lock(of_what_is_written);
    writes = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  while (!writes) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(of_what_is_written.try_lock() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ddl
