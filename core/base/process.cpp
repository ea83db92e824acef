#include "core/base/process.hpp"

#include <signal.h>

#include <cerrno>
#include <string>

#include "core/base/file.hpp"

namespace ddl {

// "PID (name) S ...", with any letters in the name.
ProcessState state_of_process(pid_t pid) {
  const FileText stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  const std::size_t name_end = stat.text.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= stat.text.size())
    return ::kill(pid, 0) != 0 && errno == ESRCH ? ProcessState::gone : ProcessState::runs;
  switch (stat.text[name_end + 2]) {
    case 'T':
    case 't':
      return ProcessState::stopped;
    case 'Z':
    case 'X':
    case 'x':
      return ProcessState::gone;
    default:
      return ProcessState::runs;
  }
}

}  // namespace ddl
