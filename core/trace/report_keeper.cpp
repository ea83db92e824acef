#include "core/trace/report_keeper.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace ddl {

ReportKeeper::ReportKeeper(std::function<void()> write) : write_(std::move(write)) {
  thread_.start([this] { keep(); });
}

void ReportKeeper::keep() {
  constexpr Nanoseconds kLongest = 2'000'000'000;
  Nanoseconds pause = 50'000'000;  // a short job is to be seen, too
  do {
    try {
      write_();
    } catch (const std::exception&) {
      // The one at the end says what is wrong.
    }
    pause = std::min(2 * pause, kLongest);
  } while (thread_.sleep(pause));
}

}  // namespace ddl
