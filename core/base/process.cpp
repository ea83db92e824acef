#include "core/base/process.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <system_error>

#include "core/base/file.hpp"

namespace ddl {
namespace {

constexpr std::size_t kMostOfEnvironment = 4 << 20;

int threads_in(const std::string& words) {
  std::istringstream stream(words);
  std::string word;
  for (int i = 0; i < 17; ++i) stream >> word;
  int threads = 0;
  stream >> threads;
  return threads;
}

}  // namespace

// "PID (name) S ...", with any letters in the name. The 18th word behind the name says how many threads there
// are: the one that has begun the process may have ended before the others.
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
      return threads_in(stat.text.substr(name_end + 2)) > 1 ? ProcessState::runs : ProcessState::gone;
    case 'X':
    case 'x':
      return ProcessState::gone;
    default:
      return ProcessState::runs;
  }
}

std::string executable_of(pid_t pid) {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", failed).filename().string();
}

bool is_starter(std::string_view executable) {
  constexpr std::string_view kStarters[] = {"mpirun", "orterun", "prterun", "orted", "prted", "ddl-exec"};
  return std::any_of(std::begin(kStarters), std::end(kStarters),
                     [&](std::string_view starter) { return executable.starts_with(starter); });
}

std::string environment_of(pid_t pid) {
  return read_file("/proc/" + std::to_string(pid) + "/environ", kMostOfEnvironment).text;
}

std::string value_in(const std::string& environment, std::string_view name) {
  for (std::size_t at = 0; at < environment.size();) {
    const std::string_view entry(environment.c_str() + at);
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string(entry.substr(name.size() + 1));
    at += entry.size() + 1;
  }
  return {};
}

Rank rank_of(const std::string& word) {
  Rank number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() ? number : -1;
}

}  // namespace ddl
