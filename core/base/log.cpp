#include "core/base/log.hpp"

#include <unistd.h>

#include <mutex>

namespace ddl {
namespace {
std::mutex speaker_mutex;
std::string& speaker() {
  static std::string* name = new std::string;  // outlives exit handlers of the host program
  return *name;
}
}  // namespace

void set_log_speaker(const std::string& name) {
  std::lock_guard lock(speaker_mutex);
  speaker() = name;
}

void log_line(const char* severity, const std::string& text) {
  std::string line;
  {
    std::lock_guard lock(speaker_mutex);
    line = speaker().empty() ? fmt::format("ddl: {}: {}\n", severity, text)
                             : fmt::format("ddl: {}: [{}] {}\n", severity, speaker(), text);
  }
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace ddl
