#include "launcher/starter_watch.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "core/base/file.hpp"
#include "core/base/process.hpp"

namespace ddl {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr std::size_t kMostBytes = 1 << 20;

// Those that run: mpirun does not collect the dead any more when it is stuck.
std::vector<pid_t> children_of(pid_t process) {
  const std::string name = std::to_string(process);
  std::istringstream list(read_file("/proc/" + name + "/task/" + name + "/children", kMostBytes).text);
  std::vector<pid_t> children;
  for (pid_t child = 0; list >> child;)
    if (state_of_process(child) != ProcessState::gone) children.push_back(child);
  return children;
}

// "202 0x7f4388001e10 0x80 ...": the number of the call and its arguments, or "running".
std::string lock_waited_for(pid_t process) {
  const std::string call = read_file("/proc/" + std::to_string(process) + "/syscall", 4096).text;
  return call.starts_with(std::to_string(SYS_futex) + " ") ? call : std::string();
}

}  // namespace

bool StarterWatch::look(pid_t starter) {
  const std::vector<pid_t> children = children_of(starter);
  started_.insert(children.begin(), children.end());
  const std::vector<pid_t> ours = children_of(::getpid());
  if (state_of_process(starter) != ProcessState::gone) strays_.insert(ours.begin(), ours.end());
  return is_stuck({!children.empty(), lock_waited_for(starter)}, std::chrono::steady_clock::now());
}

bool StarterWatch::is_stuck(const StarterSeen& seen, Time when) {
  had_children_ |= seen.has_children;
  if (!had_children_ || seen.has_children || seen.waits_for_lock.empty() || seen.waits_for_lock != lock_) {
    lock_ = seen.has_children ? std::string() : seen.waits_for_lock;
    since_ = when;
    return false;
  }
  return when - since_ >= kPatience;
}

std::vector<pid_t> StarterWatch::left_behind() const {
  std::vector<pid_t> left = children_of(::getpid());
  std::erase_if(left, [&](pid_t child) {
    return started_.count(child) == 0 && (!is_killed_ || strays_.count(child) > 0);
  });
  return left;
}

}  // namespace ddl
