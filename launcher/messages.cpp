#include "launcher/messages.hpp"

#include <unistd.h>

#include <algorithm>

namespace ddl {
namespace {

std::string& speaker() {
  static std::string name = "ddlrun";
  return name;
}

// One write, so that the lines of several processes do not mix; one line, whatever a file name contains.
void print(const std::string& severity, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string line = speaker() + ": " + severity + text + "\n";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void set_speaker(const std::string& name) { speaker() = name; }
void print_error(const std::string& text) { print("error: ", text); }
void print_warning(const std::string& text) { print("warning: ", text); }
void print_note(const std::string& text) { print("", text); }

}  // namespace ddl
