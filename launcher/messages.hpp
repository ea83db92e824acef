// What the launcher says and how it ends: `ddlrun: error: <problem> (<why>); <what to do>`, one line on
// standard error; standard output belongs to the program.
#pragma once

#include <string>

#include "core/base/error.hpp"

namespace ddl {

// Exit codes of ddlrun itself; every other code is the program's own, or 128 + the signal that ended it.
constexpr int kExitUsage = 2;
constexpr int kExitLaunch = 3;

/// The job could not be started: exit code 3.
class LaunchError : public Error {
 public:
  using Error::Error;
};

/// The name in front of every message: "ddlrun" or "ddl-exec".
void set_speaker(const std::string& name);

void print_error(const std::string& text);
void print_warning(const std::string& text);
void print_note(const std::string& text);

}  // namespace ddl
