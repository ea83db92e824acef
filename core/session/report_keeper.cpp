#include "core/session/report_keeper.hpp"

#include <chrono>
#include <system_error>
#include <utility>

#include "core/base/signals.hpp"

namespace ddl {

ReportKeeper::ReportKeeper(std::function<void()> write) : write_(std::move(write)) {
  SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { keep(); });
  } catch (const std::system_error&) {
    // The report is then written at the end only.
  }
}

ReportKeeper::~ReportKeeper() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ReportKeeper::keep() {
  constexpr std::chrono::seconds kPause{2};
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    try {
      write_();
    } catch (const std::exception&) {
      // The one at the end says what is wrong.
    }
    lock.lock();
  } while (!ended_.wait_for(lock, kPause, [this] { return ends_; }));
}

}  // namespace ddl
