#include "core/trace/report_keeper.hpp"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

namespace ddl {
namespace {

// Held while a report is written, and by who forks: a child would find what is locked for that locked for
// ever, and what is made for it half made.
std::mutex& writing() {
  static std::mutex* the_mutex = new std::mutex;  // outlives exit handlers of the program
  return *the_mutex;
}

void keep_still_in_forks() {
  writing();  // is there before anybody forks
  static const int registered =
      ::pthread_atfork([] { writing().lock(); }, [] { writing().unlock(); }, [] { writing().unlock(); });
  (void)registered;
}

}  // namespace

ReportKeeper::ReportKeeper(std::function<void()> write) : write_(std::move(write)) {
  keep_still_in_forks();
  thread_.start([this] { keep(); });
}

void ReportKeeper::keep() {
  constexpr Nanoseconds kLongest = 2'000'000'000;
  Nanoseconds pause = 50'000'000;  // a short job is to be seen, too
  do {
    try {
      std::lock_guard lock(writing());
      write_();
    } catch (const std::exception&) {
      // The one at the end says what is wrong.
    }
    pause = std::min(2 * pause, kLongest);
  } while (thread_.sleep(pause));
}

}  // namespace ddl
