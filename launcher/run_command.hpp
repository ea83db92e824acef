// Runs a small helper command and returns what it printed. No shell; a time limit; nothing left running: the
// helper is the leader of its own process group, which is killed when the time is over.
#pragma once

#include <chrono>
#include <string>

#include "launcher/strings.hpp"

namespace ddl {

struct CommandResult {
  int exit_code = 127;  // 128 + signal; 127 when it could not be started
  bool timed_out = false;
  std::string output;  // standard output
  std::string errors;  // standard error
};

CommandResult run_command(const Strings& command, std::chrono::milliseconds limit);

}  // namespace ddl
